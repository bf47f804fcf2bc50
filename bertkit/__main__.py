"""``python -m bertkit``, which ``torchrun -m bertkit`` and ``accelerate launch -m bertkit`` use too."""

from bertkit.cli.app import main

if __name__ == "__main__":
    main()
