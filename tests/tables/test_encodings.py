"""Encodings: UTF-8 passes unchanged, Windows-1252 and UTF-16 are recognised and said, others refused by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.errors import DataError
from bertkit.tables import read_table
from bertkit.tables.encodings import as_utf8

TEXT = "text,label\r\nplain,a\r\nDie Rechnung für März – „zu hoch“ – 5 €,b\r\nJe suis très déçu par l’appareil,a\r\n"


def converted(data: bytes, block: int = 1 << 20) -> str:
    blocks = [data[at : at + block] for at in range(0, len(data), block)]
    return b"".join(as_utf8(blocks, "x.csv")).decode().removeprefix("\ufeff")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), st.integers(1, 8))
def test_utf8_is_unchanged(text, block):
    assert converted(text.encode(), block) == text.removeprefix("\ufeff")


@pytest.mark.parametrize("block", [64, 1 << 20])
@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("cp1252", "read as Windows-1252 (cp1252): Die Rechnung für März"),
        ("utf-16", "read as UTF-16: text,label plain,a Die Rechnung"),
        ("utf-16-le", "read as UTF-16: text,label"),
        ("utf-16-be", "read as UTF-16: text,label"),
    ],
)
def test_other_encodings_are_read_and_said(capsys, encoding, said, block):
    assert converted(TEXT.encode(encoding), block) == TEXT
    first, *others = capsys.readouterr().err.splitlines()
    assert first.startswith("x.csv: not UTF-8; ")
    assert said[:24] in first
    assert others == []
    if block > 64:
        assert said in first


def test_a_character_cut_by_a_block_is_no_fault(capsys):
    for block in range(1, 12):
        assert converted(TEXT.encode(), block) == TEXT
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "encoding", "expected"),
    [
        (
            "text,label\nСчёт за март слишком высок,a\n",
            "cp1251",
            "it may be cp1251; if so, convert it: iconv -f cp1251",
        ),
        ("text,label\n請求書が高すぎます。確認してください,a\n", "shift_jis", "iconv -f cp932"),
    ],
)
def test_other_encodings_are_refused_by_name(text, encoding, expected):
    with pytest.raises(DataError, match="neither UTF-8 nor Windows-1252") as caught:
        converted(text.encode(encoding))
    assert expected in str(caught.value)


@pytest.mark.parametrize("broken", ["čaj, caf\udce9", "caf\udce9, čaj čaj"])
def test_utf8_with_a_fault_stays_one(tmp_path, broken):
    """A single wrong byte in UTF-8 does not turn the other characters into those of Windows-1252."""
    path = tmp_path / "x.csv"
    path.write_bytes(f'text,label\n"{broken}",a\n'.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=r"not UTF-8 at byte offset \d+ \(line 2, byte 0xe9"):
        read_table(path)


def test_the_fingerprint_is_that_of_the_file(tmp_path):
    fingerprints = set()
    for name, encoding in (("a.csv", "cp1252"), ("b.csv", "utf-8")):
        (tmp_path / name).write_bytes(TEXT.encode(encoding))
        table = read_table(tmp_path / name)
        assert table.columns["text"][1] == "Die Rechnung für März – „zu hoch“ – 5 €"
        assert list(table.lines) == [2, 3, 4]
        fingerprints.add(table.fingerprint)
    assert len(fingerprints) == 2
