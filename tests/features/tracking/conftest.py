"""Fixtures of the tests of training too."""

from tests.training.conftest import corpus, glue

__all__ = ["corpus", "glue"]
