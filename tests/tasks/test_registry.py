"""Tests of `by_kind_of_task`: what a feature knows of a kind of task."""

import sys

from bertkit.tasks.ner.task import NerTask
from bertkit.tasks.registry import by_kind_of_task


def test_own_kinds_are_in_modules_beside(tmp_path, monkeypatch):
    (tmp_path / "a_room").mkdir()
    (tmp_path / "a_room" / "__init__.py").write_text("")
    (tmp_path / "a_room" / "kinds.py").write_text(
        "from bertkit.tasks.registry import by_kind_of_task\n@by_kind_of_task\ndef name(task): return 'any'\n"
    )
    (tmp_path / "a_room" / "ner.py").write_text(
        "from a_room.kinds import name\nfrom bertkit.tasks.ner.task import NerTask\n"
        "@name.register\ndef _(task: NerTask): return 'ner'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from a_room.kinds import name  # type: ignore[import-not-found]

    assert "a_room.ner" not in sys.modules
    assert name(object.__new__(NerTask)) == "ner"
    assert name(object()) == "any"


def test_others_register_theirs():
    class Levels:
        pass

    @by_kind_of_task
    def size(task, factor=1):
        """Returns a size."""
        return factor

    size.register(Levels, lambda task, factor=1: 10 * factor)
    assert (size(object()), size(Levels(), factor=2), size.__doc__) == (1, 20, "Returns a size.")
