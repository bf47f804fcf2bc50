"""Names under which a server answers: its own, and those that are allowed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import urllib.request

import pytest

from bertkit.features.serving.connections import Hosts
from bertkit.features.serving.server import listening, run_app
from bertkit.runtime.errors import RecipeError

LOCAL = ["localhost", "LOCALHOST:8000", "localhost.", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8000"]
FOREIGN = ["evil.example", "localhost.evil.example", "evil.example:80", "127.0.0.1.evil.example", "", ":", "[", "[::1"]


@pytest.mark.parametrize("host", LOCAL)
def test_loopback_answers_to_its_names(host):
    for hosts in (Hosts("127.0.0.1", "127.0.0.1"), Hosts("localhost", "::1"), Hosts("0.0.0.0", "0.0.0.0")):
        assert hosts.accept(host)


@pytest.mark.parametrize("host", [*FOREIGN, "*", "*.example"])
def test_foreign_names_are_refused(host):
    for address in ("127.0.0.1", "0.0.0.0", "::", "192.0.2.1"):
        assert not Hosts(address, address, ["film.example"]).accept(host)


def test_the_bound_name_and_address():
    hosts = Hosts("Film.Example", "192.0.2.1")
    assert hosts.accept("film.example:80")
    assert hosts.accept("192.0.2.1")
    assert not hosts.accept("192.0.2.2")


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_all_interfaces_answer_to_addresses_and_the_machine(address):
    hosts = Hosts(address, address)
    for host in ("192.0.2.1:80", "[2001:db8::1]", socket.gethostname(), socket.gethostname().partition(".")[0]):
        assert hosts.accept(host)


def test_allowed_names():
    hosts = Hosts("127.0.0.1", "127.0.0.1", ["Film.Example", "*.example.org", "[2001:db8::1]"])
    for host in ("film.example:80", "a.example.org", "a.b.example.org", "[2001:db8::1]:80", "localhost"):
        assert hosts.accept(host)
    for host in ("a.film.example", "example.org", "evilexample.org", "192.0.2.1"):
        assert not hosts.accept(host)
    assert all(Hosts("127.0.0.1", "127.0.0.1", "*").accept(host) for host in FOREIGN)
    assert Hosts("127.0.0.1", "127.0.0.1", "film.example").accept("film.example")


def test_an_allowed_address_may_have_zeros():
    assert Hosts("127.0.0.1", "127.0.0.1", ["[2001:DB8:0:0:0:0:0:1]"]).accept("[2001:db8::1]:80")


def test_requests_of_no_browser_have_no_host():
    assert Hosts("127.0.0.1", "127.0.0.1").accept(None)


@pytest.mark.parametrize(
    "name", ["", "http://a.example", "a.example:80", "a b", "*a.example", "a.*", "a/b", "a@b", "bücher.example"]
)
def test_names_that_are_none(name):
    with pytest.raises(RecipeError, match="expected the name of a host without a port"):
        Hosts("127.0.0.1", "127.0.0.1", [name])


@pytest.mark.usefixtures("serve_extra")
def test_a_port_may_be_taken_while_the_model_loads():
    with listening("127.0.0.1", 0) as one, listening("127.0.0.1", one.getsockname()[1]) as other:
        one.listen()
        with pytest.raises(RecipeError, match=r"http://127\.0\.0\.1:\d+: Address already in use; give another --port"):
            run_app(None, other, "", Hosts("127.0.0.1", "127.0.0.1"), 1)


@pytest.mark.usefixtures("serve_extra")
def test_a_server_runs_in_a_notebook_whose_loop_has_the_thread():
    from starlette.responses import Response

    found = []

    def ask(address):
        with urllib.request.urlopen(address, timeout=20) as answer:
            found.append(answer.read())
        os.kill(os.getpid(), signal.SIGINT)  # of the button that interrupts a cell

    def ready(address):
        threading.Thread(target=ask, args=[address]).start()

    async def cell():
        with listening("127.0.0.1", 0) as listener:
            hosts = Hosts("127.0.0.1", "127.0.0.1")
            run_app(Response("here"), listener, "", hosts, 1, ready)

    asyncio.run(cell())
    assert found == [b"here"]
