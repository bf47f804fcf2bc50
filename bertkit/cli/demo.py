"""``bertkit demo``."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.printing import print_address


def demo(
    checkpoint: options.Checkpoint,
    host: options.Host = "127.0.0.1",
    port: options.Port = 7860,
    allowed_host: options.AllowedHost = None,
    as_: Annotated[
        Literal["predict", "fill-mask", "embed"] | None,
        typer.Option("--as", help="What to show; decided by the head of the checkpoint.", show_default=False),
    ] = None,
    device: options.Device = "auto",
    precision: options.Precision = "auto",
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = False,
    json: options.AddressAsJson = False,
) -> None:
    """Show a page in the browser on which a checkpoint can be tried."""
    bertkit.demo(
        checkpoint,
        host=host,
        port=port,
        allowed_hosts=allowed_host or (),
        as_=as_,
        device=device,
        precision=precision,
        revision=revision,
        trust_remote_code=trust_remote_code,
        ready=print_address if json else None,
    )
