"""``python -m bertkit``, which ``torchrun -m bertkit`` and ``accelerate launch -m bertkit`` use too; the ``bertkit``
command."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Runs `bertkit.cli.app.main`; Ctrl-C ends the process with exit code 130."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from bertkit.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt; ends the process in an import, where libraries may drop what is raised, and in a
    destructor, where Python does."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>" or frame.f_code.co_name == "__del__":
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
