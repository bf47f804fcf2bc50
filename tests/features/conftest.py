"""The command line for the tests of the commands of features."""

from tests.cli.conftest import bertkit

__all__ = ["bertkit"]
