"""``python -m bertkit``, which ``torchrun -m bertkit`` and ``accelerate launch -m bertkit`` use too; the ``bertkit``
command."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs `bertkit.cli.app.main`; Ctrl-C while it is imported ends the process with exit code 130."""
    try:
        from bertkit.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
