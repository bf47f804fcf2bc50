"""``bertkit serve`` and ``bertkit demo``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.commands import command
from bertkit.cli.groups import new_app
from bertkit.cli.printing import print_address

app = new_app()


@dataclass(frozen=True, kw_only=True)
class Server:
    """Options of both commands; `bertkit.cli.commands.command` turns the fields into options."""

    host: options.Host = "127.0.0.1"
    port: options.Port = 8000
    allowed_host: options.AllowedHost = None
    as_: Annotated[
        Literal["predict", "fill-mask", "embed"] | None,
        options.option("--as", help="Use of the checkpoint; by default decided by its head."),
    ] = None
    device: options.Device = "auto"
    precision: options.Precision = "auto"
    revision: options.Revision = None
    trust_remote_code: options.TrustRemoteCode = False
    json: options.AddressAsJson = False

    def arguments(self) -> dict[str, Any]:
        """Returns the options as arguments of `bertkit.serve` and `bertkit.demo`."""
        given = {name: value for name, value in vars(self).items() if name not in ("allowed_host", "json")}
        return {**given, "allowed_hosts": self.allowed_host or (), "ready": print_address if self.json else None}


@dataclass(frozen=True, kw_only=True)
class Page(Server):
    """Options of the page, with another port."""

    port: options.Port = 7860


@command(app, (), ())
def serve(
    checkpoint: options.Checkpoint,
    server: Server,
    token: Annotated[
        str | None,
        options.option(envvar="BERTKIT_SERVE_TOKEN", show_envvar=True, help="Bearer token that requests need."),
    ] = None,
    max_error: Annotated[
        float | None,
        options.option(
            metavar="SHARE", help="Answer with at most this share of answers wrong; see predict. Others have no label."
        ),
    ] = None,
    by_class: Annotated[
        bool, options.option("--by-class", help="Keep --max-error among the answers of each class.", rare=True)
    ] = False,
    max_batch_tokens: Annotated[int, typer.Option(help="Tokens that are computed together, about.")] = 4096,
    max_concurrent_requests: Annotated[int, typer.Option(help="Requests taken at once; more get 429.")] = 512,
    max_client_batch_size: Annotated[int, typer.Option(help="Texts of a request.")] = 32,
    max_request_tokens: Annotated[int, typer.Option(help="Tokens of a request.")] = 32768,
    max_body_bytes: Annotated[int, typer.Option(help="Bytes of a request.")] = 2_000_000,
) -> None:
    """Serve a checkpoint over HTTP. For InferenceClient and the clients of text-embeddings-inference."""
    from bertkit.features.serving.requests import Limits

    limits = Limits(
        max_batch_tokens=max_batch_tokens,
        max_concurrent_requests=max_concurrent_requests,
        max_client_batch_size=max_client_batch_size,
        max_request_tokens=max_request_tokens,
        max_body_bytes=max_body_bytes,
    )
    promised = {"max_error": max_error, "by_class": by_class}
    bertkit.serve(checkpoint, token=token, limits=limits, **promised, **server.arguments())


@command(app, (), ())
def demo(checkpoint: options.Checkpoint, page: Page) -> None:
    """Show a page in the browser to try a checkpoint."""
    bertkit.demo(checkpoint, **page.arguments())
