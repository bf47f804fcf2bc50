"""Sources of a corpus: the same documents from every file format and compression; faults with file and line."""

from __future__ import annotations

import errno
import gzip
import os
import pickle
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.data.corpus.documents import DocumentForm
from bertkit.data.corpus.sources import TextLines, find_sources
from bertkit.runtime.errors import DataError
from bertkit.runtime.reading.text import read_blocks
from tests.data.conftest import LANGUAGES, json_lines, packed, parquet, refusal, written
from tests.hub_server import HubServer

TEXTS = ["One is\nhard-wrapped.\n\nTwo.", "", None, "Piña 二."]
DOCUMENTS = [["One is hard-wrapped.", "Two."], ["Piña 二."]]


def packed_twice(data: bytes, packing: str) -> bytes:
    """Packed in two parts, one after the other, as ``cat a.gz b.gz`` makes them."""
    middle = len(data) // 2
    return packed(data[:middle], packing) + packed(data[middle:], packing)


def parquet_of(texts, **options) -> bytes:
    return parquet({"id": range(len(texts)), "text": texts}, **options)


def stored(form: str, texts) -> bytes:
    if form == ".txt":
        return "\n=====\n".join(text or "" for text in texts).encode()
    return json_lines(texts) if form == ".jsonl" else parquet_of(texts)


def documents(source, form=None):
    found = []
    for paragraph in source.paragraphs(form or DocumentForm(document_separator="=+")):
        if paragraph.starts_document:
            found.append([])
        found[-1].append(paragraph.text)
    return found


def read(path: Path, **options) -> list[list[str]]:
    [source] = find_sources([path], **options)
    return documents(source)


FORMS = [".txt", ".jsonl", ".parquet"]
PACKINGS = ["", ".gz", ".zst"]


class TestFiles:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("packing", PACKINGS)
    def test_every_form_gives_the_same_documents_however_packed(self, tmp_path, form, packing):
        path = written(tmp_path / f"corpus{form}{packing}", packed_twice(stored(form, TEXTS), packing))
        [source] = find_sources([str(path)])
        assert documents(source) == documents(source) == DOCUMENTS
        assert documents(pickle.loads(pickle.dumps(source))) == DOCUMENTS
        assert source.name == str(path)
        assert source.position == source.size == path.stat().st_size

    @pytest.mark.parametrize("form", FORMS)
    def test_lines_are_stripped_texts(self, tmp_path, form):
        [source] = find_sources(
            [written(tmp_path / f"corpus{form}", stored(form, [" One \r\n\r\n two.", "\t", "Three."]))]
        )
        assert [line for line in source.lines() if line != "====="] == ["One", "two.", "Three."]

    def test_text_lines_can_be_read_twice(self, tmp_path):
        files = [written(tmp_path / "1.txt", b" a b \r\n\r\nc"), written(tmp_path / "2.jsonl", json_lines(["d"]))]
        lines = TextLines(find_sources(files))
        assert list(lines) == list(lines) == ["a b", "c", "d"]

    @pytest.mark.parametrize("form", FORMS)
    def test_an_empty_file_has_no_document(self, tmp_path, form):
        [source] = find_sources([written(tmp_path / f"corpus{form}", parquet_of([]) if form == ".parquet" else b"")])
        assert documents(source) == [] == list(source.lines())

    @pytest.mark.parametrize(("form", "packing"), [(".txt", ""), (".jsonl", ".gz"), (".txt", ".zst"), (".parquet", "")])
    def test_the_position_grows_with_the_reading(self, tmp_path, form, packing):
        texts = [str(os.urandom(500).hex()) for _ in range(3000)]  # 3 MB that do not pack well
        [source] = find_sources([written(tmp_path / f"a{form}{packing}", packed_twice(stored(form, texts), packing))])
        seen = [source.position for _ in source.paragraphs(DocumentForm(document_separator="=+"))]
        assert seen == sorted(seen)
        assert len(set(seen)) >= 3
        assert 0.1 < sum(seen) / len(seen) / source.size < 0.9

    @pytest.mark.parametrize(("form", "packing"), [(".txt", ""), (".txt", ".gz"), (".jsonl", ".zst"), (".parquet", "")])
    def test_memory_does_not_grow_with_the_file(self, tmp_path, form, packing):
        import pyarrow as pa

        texts = [f"{number} {'some words ' * 200}" for number in range(8_000)]  # 18 MB
        one_group = {"row_group_size": len(texts), "use_dictionary": False, "compression": "none"}
        data = parquet_of(texts, **one_group) if form == ".parquet" else stored(form, texts)
        [source] = find_sources([written(tmp_path / f"a{form}{packing}", packed_twice(data, packing))])
        del texts, data
        before, most = pa.total_allocated_bytes(), 0
        next(source.paragraphs(DocumentForm()))  # the imports
        tracemalloc.start()
        try:
            for number, _ in enumerate(source.paragraphs(DocumentForm(sentence_per_line=True))):
                if not number % 100:
                    most = max(most, pa.total_allocated_bytes() - before)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak + most < 8 << 20


class TestFingerprints:
    def test_path_size_time_and_column_determine_the_fingerprint(self, tmp_path, monkeypatch):
        a = written(tmp_path / "a.jsonl", json_lines(["a"]))
        [one] = find_sources([a])
        fingerprint = one.fingerprint()
        monkeypatch.chdir(tmp_path)
        assert find_sources(["a.jsonl"])[0].fingerprint() == fingerprint
        b = written(tmp_path / "b.jsonl", json_lines(["a"]))
        others = [find_sources([b])[0], find_sources([a], text_column="id")[0], *one.ranges(DocumentForm(), 5)[:2]]
        os.utime(a, (1, 1))
        others.append(find_sources([a])[0])
        written(tmp_path / "a.jsonl", json_lines(["ab"]))
        os.utime(a, (1, 1))
        others.append(find_sources([a])[0])
        assert len({fingerprint, *(other.fingerprint() for other in others)}) == 7

    def test_the_column_does_not_count_for_text_files(self, tmp_path):
        files = [written(tmp_path / "a.txt"), written(tmp_path / "b.jsonl", json_lines(["b"]))]
        one, two = (find_sources(files, text_column=column)[0].fingerprint() for column in ("text", "body"))
        assert one == two


class TestFindSources:
    def names(self, folder, *given, **options):
        return [Path(source.name).relative_to(folder).as_posix() for source in find_sources(given, **options)]

    def test_folders_are_walked_in_the_order_of_names(self, tmp_path):
        for name in ("b.txt", "a/z.txt.gz", "a/B.TXT", "c/d/e.parquet", "a.jsonl", "note.md", "x.gz"):
            written(tmp_path / name)
        for name in (".hidden.txt", ".git/a.txt", "__MACOSX/._a.txt"):
            written(tmp_path / name)
        expected = ["a/B.TXT", "a/z.txt.gz", "a.jsonl", "b.txt", "c/d/e.parquet"]
        assert self.names(tmp_path, tmp_path) == expected

    def test_a_folder_that_cannot_be_read_is_a_fault(self, tmp_path, monkeypatch):
        """Else a corpus would lack its files without a word."""
        written(tmp_path / "a.txt")
        closed = written(tmp_path / "closed/b.txt").parent
        scandir = os.scandir

        def deny(path):
            if Path(path) == closed:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return scandir(path)

        monkeypatch.setattr(os, "scandir", deny)
        with pytest.raises(DataError) as caught:
            find_sources([tmp_path])
        assert str(caught.value) == f"{closed}: cannot be read: Permission denied"

    def test_patterns(self, tmp_path):
        for name in ("a.txt", "b.txt", "b.jsonl", "sub/c.txt", "sub/.d.txt", "__MACOSX/e.txt"):
            written(tmp_path / name)
        assert self.names(tmp_path, f"{tmp_path}/*.txt") == ["a.txt", "b.txt"]
        assert self.names(tmp_path, f"{tmp_path}/**/*.txt") == ["a.txt", "b.txt", "sub/c.txt"]
        assert self.names(tmp_path, f"{tmp_path}/[ab].*") == ["a.txt", "b.jsonl", "b.txt"]
        assert self.names(tmp_path, f"{tmp_path}/su?") == ["sub/c.txt"]

    def test_a_file_whose_name_looks_like_a_pattern(self, tmp_path):
        assert self.names(tmp_path, written(tmp_path / "a[1].txt")) == ["a[1].txt"]

    def test_the_home_folder(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        written(tmp_path / "texts/a.txt")
        assert self.names(tmp_path, "~/texts") == self.names(tmp_path, "~/t*/*.txt") == ["texts/a.txt"]

    def test_order_is_kept_and_repetitions_dropped(self, tmp_path, caplog):
        b, a = written(tmp_path / "b.txt"), written(tmp_path / "a.txt")
        (tmp_path / "c.txt").symlink_to(a)
        assert self.names(tmp_path, b, tmp_path, str(a)) == ["b.txt", "a.txt"]
        assert f"given more than once, used once: {b}, {tmp_path / 'c.txt'}, {a}" in caplog.text

    def test_all_faults_in_one_message(self, tmp_path):
        (tmp_path / "empty").mkdir()
        bare, other = written(tmp_path / "wiki.gz"), written(tmp_path / "notes.md")
        link = written(tmp_path / "links/a.txt").with_name("b.txt")
        link.symlink_to("absent.txt")
        with pytest.raises(DataError) as caught:
            find_sources([tmp_path / "absent", tmp_path / "empty", bare, other, f"{tmp_path}/*.jsonl", link.parent, ""])
        message = str(caught.value)
        assert message.startswith("7 faults:")
        assert f"{link}: a link to a file that does not exist" in message
        assert "'' is not the name of a file or folder" in message  # and not the current folder
        assert f"{tmp_path / 'absent'}: no such file or folder" in message
        assert f"{tmp_path / 'empty'}: no .txt, .jsonl or .parquet file" in message
        assert (
            f"{bare}: .gz does not tell the format of the compressed file; rename it to end in .txt.gz, .jsonl.gz"
            in message
        )
        assert f"{other}: .md is not supported; expected .txt, .jsonl or .parquet, also compressed" in message
        assert f"{tmp_path}/*.jsonl: this pattern matches no file or folder" in message

    @pytest.mark.parametrize("missing", ["absent.txt", "./absent", "a/b/absent", "~/absent", "absent.jsonl.zst", "a b"])
    def test_paths_are_not_sought_on_the_hub(self, tmp_path, monkeypatch, missing):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path))
        with pytest.raises(DataError, match=r"^(\S*absent\S*|a b): no such file or folder$"):
            find_sources([missing])

    def test_nothing_given(self):
        with pytest.raises(DataError, match="no text was given"):
            find_sources([])


NO_PARQUET = "not a Parquet file, damaged or truncated ("


def with_another_checksum() -> bytes:
    data = bytearray(gzip.compress(b"some text\n", mtime=0))
    data[-8] ^= 0xFF
    return bytes(data)


def not_utf8() -> bytes:
    import pyarrow as pa

    return parquet_of(pa.array([b"a", b"caf\xe9"]).view(pa.string()))  # as a careless writer makes it


class TestFaultsOfFiles:
    def test_not_utf8_at_its_unpacked_offset(self, tmp_path):
        data = b"line\n" * 300_000 + b"caf\xe9\n"  # beyond the first block
        for packing in PACKINGS:
            message = refusal(read, written(tmp_path / f"a.txt{packing}", packed_twice(data, packing)))
            assert message.startswith(f"{tmp_path}/a.txt{packing}: not UTF-8 at byte offset 1500003 ")

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("packing", [".gz", ".zst"])
    @pytest.mark.parametrize("damage", ["cut", "cut in the second part", "not packed", "no byte"])
    def test_packed_files_that_are_not_whole(self, tmp_path, form, packing, damage):
        texts = [os.urandom(40).hex() for _ in range(50)]
        part = packed(stored(form, texts), packing)
        second = part + part[: len(part) // 2]
        cut = {"cut": part[:-5], "not packed": b"plain text", "no byte": b""}.get(damage, second)
        path = written(tmp_path / f"a{form}{packing}", cut)
        assert refusal(read, path).startswith(f"{path}: damaged or truncated (")

    def test_json_lines_by_number_with_those_that_follow(self, tmp_path):
        lines = ['{"text": "fine"}', "", '{"text": 7}', "[1]", '{"text": "a"', '{"txt": "b"}', r'{"text": "\ud800"}']
        path = written(tmp_path / "a.jsonl", "\n".join(lines))
        message = refusal(read, path)
        assert message.startswith("5 faults:\n")
        assert f"{path}: line 3: 'text' is 7; expected a string" in message
        assert f"{path}: line 4: [1] is not a JSON object; expected one object per line" in message
        assert f"{path}: line 5: not valid JSON (Expecting ',' delimiter" in message
        assert f"{path}: line 6: no column 'text'; available: 'txt'; did you mean 'txt'?" in message
        assert f"{path}: line 7: 'text' contains an unpaired surrogate, \\ud800," in message

    def test_a_column_that_is_not_there(self, tmp_path):
        for name, data in (("a.parquet", parquet_of(TEXTS)), ("a.jsonl", json_lines(TEXTS))):
            message = refusal(read, written(tmp_path / name, data), text_column="texts")
            assert "no column 'texts'; available: 'id', 'text'; did you mean 'text'?" in message
            assert "(--text-column)" in refusal(read, tmp_path / name, text_column="body")
        with pytest.raises(DataError, match=r"^\S*b\.jsonl: no such file or folder$"):  # which may have rows
            find_sources([written(tmp_path / "a.txt"), tmp_path / "b.jsonl"], text_column="body")

    @pytest.mark.parametrize(
        ("name", "data", "column", "message"),
        [
            ("a.txt.gz", with_another_checksum, "text", "damaged or truncated (CRC check failed"),
            ("a.jsonl", lambda: "[" * 200_000, "text", "line 1: not valid JSON"),
            ("a.parquet", lambda: parquet_of(TEXTS), "id", "row 1: column 'id' contains int64; expected strings"),
            ("a.parquet", not_utf8, "text", "row 2: 'text' is not UTF-8 at byte 3"),
            ("a.parquet", lambda: b"", "text", NO_PARQUET),
            ("a.parquet", lambda: b"no Parquet", "text", NO_PARQUET),
            ("a.parquet", lambda: parquet_of(["a" * 1000])[:-20], "text", NO_PARQUET),
            ("a.parquet", lambda: parquet_of(["a"])[20:], "text", NO_PARQUET),
        ],
    )
    def test_content_that_cannot_be_read(self, tmp_path, name, data, column, message):
        path = written(tmp_path / name, data())
        assert refusal(read, path, text_column=column).startswith(f"{path}: {message}")

    @pytest.mark.parametrize("form", FORMS)
    def test_a_file_that_goes_away(self, tmp_path, form):
        path = written(tmp_path / f"a{form}", stored(form, TEXTS))
        [source] = find_sources([path])
        path.unlink()
        with pytest.raises(DataError, match=r"a\.\w+: cannot be read: No such file or directory"):
            list(source.lines())

    @pytest.mark.parametrize("kind", ["large_string", "string_view", "dictionary"])
    def test_every_arrow_kind_of_strings(self, tmp_path, kind):
        import pyarrow as pa

        column = pa.array(["a", None, "b"])
        column = column.dictionary_encode() if kind == "dictionary" else column.cast(getattr(pa, kind)())
        [source] = find_sources([written(tmp_path / "a.parquet", parquet_of(column))])
        assert list(source.lines()) == ["a", "b"]


# Hypothesis also tries the constants of the package, of which one begins a pointer of Git LFS: such a file is refused.
CONTENTS = st.binary(max_size=60).filter(lambda data: not data.startswith(b"version https://git-lfs"))


@given(CONTENTS, st.integers(1, 20), st.sampled_from(PACKINGS))
def test_blocks_are_the_bytes_of_the_file(tmp_path_factory, data, size, packing):
    file = written(tmp_path_factory.mktemp("blocks") / "a", packed_twice(data, packing))
    blocks = list(read_blocks(file, packing, lambda position: None, size))
    assert b"".join(blocks) == data
    assert all(len(block) <= size for block in blocks)


# ---- the Hub ---------------------------------------------------------------------------------------------------------

PROGRAM = """
import json, pickle, sys
from bertkit.data.corpus.documents import DocumentForm
from bertkit.data.corpus.sources import find_sources
from bertkit.runtime.errors import DataError

for given, options in json.loads(sys.argv[1]):
    try:
        sources = find_sources(given, **options)
        paragraphs = [[list(paragraph) for paragraph in source.paragraphs(DocumentForm())] for source in sources]
        copies = pickle.loads(pickle.dumps(sources))
        divided = pickle.loads(pickle.dumps([source.ranges(DocumentForm(), 9) for source in sources]))
        print(json.dumps({
            "paragraphs": paragraphs,
            "again": [[list(paragraph) for paragraph in source.paragraphs(DocumentForm())] for source in copies],
            "lines": [list(source.lines()) for source in sources],
            "names": [source.name for source in sources],
            "used": [[source.size, source.position] for source in sources],
            "divided": [
                [list(each) for part in ranges for each in part.paragraphs(DocumentForm())] for ranges in divided
            ],
            "parts": [len(ranges) for ranges in divided],
            "fingerprints": [source.fingerprint() for source in sources],
        }))
    except DataError as error:
        print(json.dumps(str(error)))
"""

HUB_PARAGRAPHS = [["One is hard-wrapped.", True], ["Two.", False], ["Piña 二.", True]]


@pytest.fixture(scope="module")
def hub():
    repositories = {
        "org/plain": {"data/train-00000-of-00001.parquet": parquet_of(TEXTS)},
        "org/languages": LANGUAGES,
        "org/damaged": {"train.jsonl": b'{"text": "a"}\n{"text": \n'},
    }
    with HubServer(repositories) as server:
        yield server


@pytest.fixture
def ask(hub, with_hub):
    """``ask([given, options], …)`` finds and reads sources in another process, since the address is read at import."""
    return lambda *calls, **environment: with_hub(hub.endpoint, PROGRAM, calls, **environment)


@pytest.mark.slow
class TestHub:
    def test_kept_streamed_and_cached_are_equal(self, ask, tmp_path):
        written(tmp_path / "a.txt", "A file.")
        [streamed] = ask([["org/plain"], {"streaming": True}])
        assert not list((tmp_path / "hf").rglob("*.arrow"))
        kept, both, part = ask(
            [["org/plain"], {}],
            [["a.txt", "org/plain", "org/plain"], {}],
            [["org/plain"], {"dataset_split": "train[:1]"}],
        )
        [cached] = ask([["org/plain"], {}], HF_HUB_OFFLINE="1")
        assert streamed["paragraphs"] == streamed["again"] == kept["paragraphs"] == kept["again"] == [HUB_PARAGRAPHS]
        assert cached["paragraphs"] == [HUB_PARAGRAPHS]
        assert streamed["fingerprints"] == kept["fingerprints"] == cached["fingerprints"] != part["fingerprints"]
        assert kept["divided"] == streamed["divided"] == kept["paragraphs"]
        assert (streamed["parts"], kept["parts"]) == ([1], [len(TEXTS)])
        assert kept["lines"] == streamed["lines"] == [["One is", "hard-wrapped.", "Two.", "Piña 二."]]
        assert streamed["used"] == [[None, 0]]
        [[size, position]] = kept["used"]
        assert 0 < position == size < 1000
        assert both["names"] == ["a.txt", "org/plain"]
        assert part["paragraphs"] == [HUB_PARAGRAPHS[:2]]

    @pytest.mark.parametrize("streaming", [False, True])
    def test_configurations_splits_and_columns(self, ask, streaming):
        def call(hub_id, config=None, split="train", column="text"):
            options = {"dataset_config": config, "dataset_split": split, "text_column": column}
            return [[hub_id], {**options, "streaming": streaming}]

        english, test, unnamed, misnamed, split, column, numbers, damaged = ask(
            call("org/languages", "english"),
            call("org/languages", "english", "test"),
            call("org/languages"),
            call("org/languages", "germn"),
            call("org/languages", "english", "tests"),
            call("org/languages", "english", column="txt"),
            call("org/languages", "english", column="id"),
            call("org/damaged"),
        )
        assert english["lines"] == [["An English row.", "Two."]]
        assert test["lines"] == [["Another.", "Row."]]
        assert english["fingerprints"] != test["fingerprints"]
        assert unnamed == "org/languages: has several configurations, give one of them: 'english', 'german'"
        expected = "org/languages: no configuration 'germn'; available: 'english', 'german'; did you mean 'german'?"
        assert misnamed == expected
        assert split == "org/languages: no split 'tests'; available: 'train', 'test'; did you mean 'test'?"
        assert column == "org/languages: no column 'txt'; available: 'id', 'text'; did you mean 'text'?"
        assert numbers == "org/languages: row 1: column 'id' contains int64; expected strings"
        assert damaged.startswith("org/damaged: cannot be read from the Hub or the cache (")

    def test_missing_names_come_before_any_download(self, ask, hub, tmp_path):
        hub.requests.clear()
        [message] = ask([["org/plain", "org/none", "absent.txt", "text"], {}])
        assert message.startswith("3 faults:\n")
        assert "org/none: neither a local file or folder nor a data set that is available from the Hub (" in message
        assert "absent.txt: no such file or folder" in message
        assert "text: neither a local file or folder nor a data set" in message
        assert not [request for request in hub.requests if request.endswith(".parquet")]

    def test_a_part_of_a_split_cannot_be_streamed(self, ask):
        [message] = ask([["org/plain"], {"streaming": True, "dataset_split": "train[:1]"}])
        assert message.startswith("org/plain: 'train[:1]' is a part of a split, which cannot be streamed; ")
