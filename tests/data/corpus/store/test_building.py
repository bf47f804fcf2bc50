"""Stores that several workers build, in one go, in shares and after kills: the same bytes each time."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertkit.data.corpus.documents import DocumentForm
from bertkit.data.corpus.sentences import split_sentences
from bertkit.data.corpus.settings import DocumentFilter
from bertkit.data.corpus.sources import find_sources
from bertkit.data.corpus.store import building, parts
from bertkit.data.corpus.store.building import divide_sources, join_store
from bertkit.data.corpus.store.token_store import TokenStore
from bertkit.runtime.errors import DataError, OutputError, PlacementError
from bertkit.runtime.files import lock
from tests.data.corpus.conftest import BLANK, build

ROOT = Path(__file__).parents[4]
FORKS = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


def contents(store: TokenStore) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.folder.iterdir()}


def arrays(store: TokenStore) -> list[list[int]]:
    numbers = (range(store.num_tokens), range(store.num_sentences + 1), range(store.num_documents + 1))
    each = (store.tokens, store.sentence_offsets, store.document_offsets)
    return [array[list(indices)].tolist() for array, indices in zip(each, numbers, strict=True)]


@pytest.fixture
def files(corpus, monkeypatch):
    """Documents of 1 to 40 sentences, some without tokens, in two files that become a dozen of units."""
    monkeypatch.setattr(building, "_LEAST_BYTES", 1000)
    texts = []
    for number in range(60):
        texts.append("\n".join(f"t{number} t{line}. T{line}" for line in range(1 + number * 7 % 40)))
        if number % 7 == 3:
            texts[-1] = "\u200b"
    return corpus.write(one="\n\n".join(texts[:30]), two="\n\n".join(texts[30:]))


@pytest.fixture
def units_written(monkeypatch) -> list[building.Unit]:
    """The units that this process writes from here on."""
    write, written = building.write_unit, []
    monkeypatch.setattr(
        building, "write_unit", lambda job, unit, *rest: written.append(unit) or write(job, unit, *rest)
    )
    return written


def test_parts_have_the_text_of_one_store(corpus, files):
    store = build(corpus, files)
    assert len(store.parts) > 8
    assert arrays(store) == arrays(corpus.build(files, BLANK))
    assert not (corpus.folder / "store.building").exists()


def test_an_empty_file_comes_first(corpus, files):
    """It is in a unit with the files after it, or alone before a file that is not divided; alone it is no corpus."""
    [empty] = corpus.write(empty="")
    assert arrays(build(corpus, [empty, *files])) == arrays(corpus.build(files, BLANK))
    whole = DocumentForm()
    assert arrays(build(corpus, [empty, *files], "whole", form=whole)) == arrays(corpus.build(files, whole))
    with pytest.raises(DataError, match=r"no text in '[^']*'$"):
        build(corpus, [empty], "none")


def test_a_part_ends_with_a_document(corpus, files, monkeypatch):
    expected = arrays(corpus.build(files, BLANK))
    monkeypatch.setattr(parts, "PART_TOKENS", 100)
    monkeypatch.setattr("bertkit.data.corpus.store.encoding._BATCH_CHARACTERS", 200)
    monkeypatch.setattr(building, "_LEAST_BYTES", 10**6)
    store = build(corpus, files)
    assert all(part.facts["name"].startswith("part-000000-") for part in store.parts)
    assert len(store.parts) > 5
    assert arrays(store) == expected


@FORKS
@pytest.mark.parametrize("workers", [2, 4])
def test_the_number_of_processes_does_not_show(corpus, files, workers):
    assert contents(build(corpus, files, "several", number=workers)) == contents(build(corpus, files))


class TestDyingWorkers:
    """A splitter kills its process at a word, once or always."""

    def splitter(self, corpus, most: int):
        driver, marked = os.getpid(), corpus.folder

        def killing(paragraph: str) -> list[str]:
            marks = len(list(marked.glob("killed-*")))
            if "t50" in paragraph and os.getpid() != driver and marks < most:
                (marked / f"killed-{marks}").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return split_sentences(paragraph)

        killing.version = "1"
        return killing

    @FORKS
    def test_a_part_is_repeated_once(self, corpus, files, capsys):
        splitter = self.splitter(corpus, 1)
        store = build(corpus, files, splitter=splitter, number=2)
        assert contents(store) == contents(build(corpus, files, "other", splitter=splitter))
        assert "a process died at unit" in capsys.readouterr().err

    @pytest.mark.slow
    @pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra ray")
    @pytest.mark.filterwarnings("ignore")  # Ray leaves files and sockets to the end of the process
    @pytest.mark.parametrize("workers", [1, 2])
    def test_a_part_is_repeated_by_ray(self, corpus, files, workers):
        import psutil

        splitter = self.splitter(corpus, 1)
        store = build(corpus, files, splitter=splitter, engine="ray", number=workers)
        assert len(list(corpus.folder.glob("killed-*"))) == 1
        assert contents(store) == contents(build(corpus, files, "other", splitter=splitter))
        assert not [each for each in psutil.Process().children(recursive=True) if "raylet" in each.name()]

    @pytest.mark.slow
    @pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra ray")
    @pytest.mark.filterwarnings("ignore")  # Ray leaves files and sockets to the end of the process
    def test_what_ray_cannot_run_is_not_called_dead(self, corpus, files):
        class Foreign:
            version = "1"

            def __reduce__(self):
                return __import__, ("a_module_of_another_machine",)

        with pytest.raises(
            PlacementError, match=r"^unit \d+ .*: Ray could not run it: .*'a_module_of_another_machine'"
        ):
            build(corpus, files, splitter=Foreign(), engine="ray", number=1)

    @FORKS
    def test_the_unit_is_named_at_the_second_time(self, corpus, files):
        with pytest.raises(PlacementError, match=r"^unit \d+ \(.*two\.txt\): its process was killed again"):
            build(corpus, files, splitter=self.splitter(corpus, 9), number=2)
        assert not (corpus.folder / "store").exists()
        assert len(list((corpus.folder / "store.building").glob("unit-*.json"))) > 4


class TestShares:
    def test_shares_are_joined(self, corpus, files):
        expected = contents(build(corpus, files, "whole"))
        for number in (3, 1):
            assert build(corpus, files, part=f"{number}/3") is None
        with pytest.raises(OutputError, match=r"units? of \d+ (is|are) missing; repeat --part 2/3"):
            join_store(corpus.folder / "store")
        build(corpus, files, part="2/3")
        joined = contents(join_store(corpus.folder / "store"))
        assert joined == expected
        assert contents(join_store(corpus.folder / "store")) == joined
        assert not (corpus.folder / "store.building").exists()

    def test_the_current_folder_is_joined(self, corpus, files, monkeypatch):
        build(corpus, files, part="1/1")
        (corpus.folder / "store").mkdir()
        monkeypatch.chdir(corpus.folder / "store")
        assert contents(join_store(Path())) == contents(build(corpus, files, "whole"))

    def test_a_whole_build_does_what_shares_have_left(self, corpus, files, units_written):
        build(corpus, files, part="1/2")
        units_written.clear()
        store = build(corpus, files)
        assert len(units_written) == len(store.parts) // 2
        assert contents(store) == contents(build(corpus, files, "other"))

    def test_another_number_of_shares_is_refused(self, corpus, files):
        build(corpus, files, part="1/2")
        with pytest.raises(OutputError, match="was begun in 2 parts; give --part I/2"):
            build(corpus, files, part="3/3")
        build(corpus, [f"{file.parent}/../{file.parent.name}/{file.name}" for file in files], part="2/2")
        assert contents(join_store(corpus.folder / "store")).keys() == contents(build(corpus, files, "whole")).keys()

    def test_a_fault_of_the_text_keeps_the_parts_of_other_shares(self, corpus, files):
        [bad] = corpus.write(bad="t1\n\n" * 2000 + "\0")  # eight units, the last of which is of the second share
        texts = [bad, *files]
        build(corpus, texts, part="1/2")
        finished = set((corpus.folder / "store.building").glob("unit-*.json"))
        with pytest.raises(DataError, match="NUL byte"):
            build(corpus, texts, part="2/2")
        assert finished
        assert all(path.is_file() for path in finished)
        bad.write_text("t1\n\n" * 2000 + "\n", encoding="utf-8")
        for part in ("1/2", "2/2"):
            build(corpus, texts, part=part)
        assert contents(join_store(corpus.folder / "store")) == contents(build(corpus, texts, "whole"))

    def test_nothing_to_join(self, corpus):
        for place in (corpus.folder / "store", Path("/")):
            with pytest.raises(OutputError, match="no build in this folder"):
                join_store(place)


@pytest.fixture
def interrupted(corpus, files, monkeypatch, units_written):
    """``interrupted(5)`` ends a build of the files after five units; returns their numbers."""

    def build_some(after: int) -> list[int]:
        write = building.write_unit

        def ending(*arguments):
            if len(units_written) == after:
                raise KeyboardInterrupt
            write(*arguments)

        units_written.clear()
        with monkeypatch.context() as patch:
            patch.setattr(building, "write_unit", ending)
            with pytest.raises(KeyboardInterrupt):
                build(corpus, files)
        assert not (corpus.folder / "store").exists()
        done = [unit.number for unit in units_written]
        units_written.clear()
        return done

    return build_some


@pytest.mark.parametrize("after", [1, 5])
def test_a_build_continues_where_it_was(corpus, files, interrupted, units_written, after):
    expected = contents(build(corpus, files, "whole"))
    done = interrupted(after)
    assert contents(build(corpus, files)) == expected
    assert {unit.number for unit in units_written} == set(range(len(expected) - 1)) - set(done)


def test_a_changed_file_is_named_and_read_again(corpus, files, interrupted, units_written, capsys):
    interrupted(9)
    text = files[1].read_text()
    files[1].write_text(text.replace("t50", "t51"), encoding="utf-8")  # of the same size
    store = build(corpus, files)
    assert arrays(store) == arrays(corpus.build(files, BLANK))
    assert all(str(files[1]) in [source.name for source in unit.sources] for unit in units_written)
    said = capsys.readouterr().err
    assert f"changed since this build began, and read again: {files[1]}" in said


def test_a_finished_store_is_opened(corpus, files):
    first = build(corpus, files)
    assert build(corpus, files).fingerprint == first.fingerprint
    with pytest.raises(OutputError, match="store of another text"):
        build(corpus, files[:1])
    with pytest.raises(OutputError, match="store of another text"):
        build(corpus, files, chosen=DocumentFilter(min_tokens=3))
    (corpus.folder / "full").mkdir()
    (corpus.folder / "full" / "file").touch()
    with pytest.raises(OutputError, match="not empty"):
        build(corpus, files, "full")


@pytest.mark.parametrize("is_half_removed", [False, True])
def test_a_kill_after_the_store_is_complete_is_made_up_for(corpus, files, is_half_removed):
    """The folder of the build is removed last; what a kill leaves of it neither hides the store nor stays."""
    for part in ("1/2", "2/2"):
        assert build(corpus, files, part=part) is None
    work = corpus.folder / "store.building"
    kept = shutil.copytree(work, corpus.folder / "kept")
    expected = contents(join_store(corpus.folder / "store"))
    if is_half_removed:
        (kept / "plan.json").unlink()
    for again in (lambda: join_store(corpus.folder / "store"), lambda: build(corpus, files, part="2/2")):
        shutil.copytree(kept, work)
        assert contents(again()) == expected
        assert not work.exists()
    build(corpus, files[:1], "other", part="1/1")
    (corpus.folder / "other.building").rename(work)
    with pytest.raises(OutputError, match="not empty"):
        join_store(corpus.folder / "store")  # which has another text
    assert (work / "plan.json").is_file()


def test_a_filtered_store_is_not_that_of_a_build_without_filters(corpus, files):
    build(corpus, files, part="1/1")
    build(corpus, files, "filtered", chosen=DocumentFilter(min_tokens=2))
    (corpus.folder / "filtered").rename(corpus.folder / "store")
    with pytest.raises(OutputError, match="not empty"):
        join_store(corpus.folder / "store")


def test_missing_ray_is_named_with_its_extra(corpus, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(PlacementError, match=r"pip install 'bertkit\[ray\]'"):
        build(corpus, corpus.write(one="t1"), engine="ray")


def test_one_process_builds_a_store(corpus, files):
    work = corpus.folder / "store.building"
    work.mkdir()
    descriptor = os.open(work, os.O_RDONLY)
    lock(descriptor)
    try:
        with pytest.raises(OutputError, match="another process builds this store"):
            build(corpus, files)
    finally:
        os.close(descriptor)


def test_a_file_system_without_locks_can_have_builds(corpus, files, monkeypatch):
    def fail(descriptor, operation):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", fail)
    assert build(corpus, files).num_documents
    build(corpus, files, "shared", part="1/1")
    assert join_store(corpus.folder / "shared").num_documents


def test_a_fault_leaves_the_units_of_other_files(corpus, files, capsys):
    [bad] = corpus.write(bad="t1\n\n" * 2000 + "\0")
    with pytest.raises(DataError, match=r"bad\.txt: NUL byte at byte offset 8000"):
        build(corpus, [*files, bad])
    assert re.search(r"store\.building: keeps \d+ of \d+ units", capsys.readouterr().err)
    corpus.write(bad="t1\n\n" * 2000)
    kept = {path: path.stat().st_mtime_ns for path in (corpus.folder / "store.building").glob("unit-*.json")}
    store = build(corpus, [*files, bad])
    assert kept
    assert not list(corpus.folder.glob("*.building"))
    assert contents(store) == contents(build(corpus, [*files, bad], "again"))


def test_ranges_stay_where_another_file_grows(corpus, files, monkeypatch):
    """The size of a unit is of the whole corpus."""
    monkeypatch.setattr(building, "_LEAST_BYTES", 1)
    large = corpus.write(large="t1\n\n" * 5000, other="t2\n\n" * 5000)
    keys = []
    for text in ("t3", "t3\n\n" * 20):
        sources = find_sources([*large, *corpus.write(last=text)])
        keys.append([unit.key for unit in divide_sources(sources, BLANK, {"sources": []}, is_whole=False)])
    assert len(keys[0]) > 100
    assert len({*keys[0]} - {*keys[1]}) <= 1


def test_a_fault_has_its_line_in_the_file_and_leaves_nothing(corpus):
    rows = corpus.folder / "rows.jsonl"
    rows.write_text('{"text": "t1 t2"}\n' * 500 + '{"tex": "t1"}\n' + '{"text": "t1 t2"}\n' * 100, encoding="utf-8")
    with pytest.raises(DataError, match=r"rows\.jsonl: line 501: "):
        build(corpus, [rows])
    assert not list(corpus.folder.glob("store*"))


@FORKS
def test_duplicates_of_all_units(corpus, files):
    """A document is left out if another unit before has it."""
    text = files[0].read_text()
    [more] = corpus.write(more=f"{text}\n\nt1 t2 t3")
    chosen = DocumentFilter(deduplicate="exact")
    store = build(corpus, [*files, more], chosen=chosen)
    assert store.num_documents == build(corpus, files, "plain").num_documents + 1
    assert contents(build(corpus, [*files, more], "several", chosen=chosen, number=2)) == contents(store)


@pytest.mark.parametrize(
    "form",
    [BLANK, DocumentForm(sentence_per_line=True), DocumentForm(document_separator=r"=+ .* =+")],
    ids=["blank lines", "sentences", "headings"],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_ranges_have_the_documents_of_the_file(tmp_path, form, ending):
    lines = [
        "\ufeff= one =",
        "",
        "a b",
        "",
        "",
        "c",
        "== two ==",
        "é",
        "= x",
        "",
        "= three =",
        "d" * 30,
        " ",
        "e",
        "= =",
        "f",
    ]
    file = tmp_path / "text.txt"
    file.write_bytes(ending.join(lines * 3).encode())
    [source] = find_sources([file])
    expected = list(source.paragraphs(form))
    for size in (*range(1, 40), 1000):
        ranges = source.ranges(form, size)
        assert len(ranges) == -(-source.size // size)
        assert [each for part in ranges for each in part.paragraphs(form)] == expected


def test_ranges_of_rows(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(f'{{"text": "r{number} é"}}\n' for number in range(40)) + "\n", encoding="utf-8")
    [source] = find_sources([file])
    expected = list(source.paragraphs(BLANK))
    for size in (1, 7, 20, 100, 333):
        ranges = source.ranges(BLANK, size)
        assert [each for part in ranges for each in part.paragraphs(BLANK)] == expected
        assert not any(part.position for part in ranges)


def test_ranges_of_row_groups(tmp_path):
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"text": [f"r{number} " * (number % 7) for number in range(90)]}), file, row_group_size=8)
    [source] = find_sources([file])
    expected = list(source.paragraphs(BLANK))
    counts = set()
    for size in (1, 300, 700, source.size):
        ranges = source.ranges(BLANK, size)
        counts.add(len(ranges))
        assert [each for part in ranges for each in part.paragraphs(BLANK)] == expected
        assert len({part.fingerprint() for part in ranges}) == len(ranges)
        assert 0 <= source.size - sum(part.size for part in ranges) < len(ranges)
        assert all(part.position in (0, part.size) for part in ranges)
    assert max(counts) == 12
    assert min(counts) == 1


def test_a_fault_in_a_row_group_has_its_row_in_the_file(corpus, monkeypatch):
    monkeypatch.setattr(building, "_LEAST_BYTES", 10)
    bad = pa.array([b"good"] * 9 + [b"\xff"]).view(pa.string())
    pq.write_table(pa.table({"text": bad}), corpus.folder / "rows.parquet", row_group_size=3)
    with pytest.raises(DataError, match="row 10: 'text' is not UTF-8"):
        build(corpus, [corpus.folder / "rows.parquet"])


def test_a_text_that_is_one_document_is_not_divided(tmp_path):
    (tmp_path / "one.txt").write_text("t1\n\n" * 100)
    [source] = find_sources([tmp_path / "one.txt"])
    assert source.ranges(DocumentForm(), 10) == [source]


PROGRAM = """
import sys
from bertkit.data.corpus.store import building
import bertkit
building._LEAST_BYTES = 30000
if __name__ == "__main__":
    bertkit.build_corpus([sys.argv[1]], sys.argv[2], tokenizer=sys.argv[3], workers=2,
        document_separator="blank-line")
"""


@pytest.mark.slow
@pytest.mark.multiprocess
def test_sigkill_at_five_moments_loses_and_repeats_nothing(corpus, forks):
    import time

    [file] = corpus.write(one="\n\n".join(f"t{number} t1. T2" for number in range(50_000)))
    corpus.tokenizer.save_pretrained(corpus.folder / "tokenizer")
    call = [forks.python, "-c", PROGRAM, str(file), str(corpus.folder / "store"), str(corpus.folder / "tokenizer")]
    work, seen = corpus.folder / "store.building", 0
    for _ in range(5):
        process = subprocess.Popen(
            call, cwd=ROOT, env=forks.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wanted, limit = seen + 2, time.monotonic() + 60
        while process.poll() is None and len(list(work.glob("unit-*.json"))) < wanted and time.monotonic() < limit:
            time.sleep(0.01)
        process.kill()  # and its session: the lock is free when its last process has ended
        process.wait()
        assert seen <= len(list(work.glob("unit-*.json")))
        seen = len(list(work.glob("unit-*.json")))
    assert seen >= 8
    subprocess.run(call, cwd=ROOT, env=forks.environment, check=True, timeout=120)
    store = TokenStore.open(corpus.folder / "store")
    assert arrays(store) == arrays(corpus.build([file], BLANK))
