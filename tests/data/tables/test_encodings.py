"""Encodings: UTF-8 passes unchanged, Windows-1252, UTF-16 and UTF-32 are recognised and said, others refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.data.tables import read_table
from bertkit.data.tables.encodings import _SAMPLE, as_utf8
from bertkit.runtime.errors import DataError

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
        ("utf-32", "read as UTF-32: text,label plain,a"),
        ("utf-32-le", "read as UTF-32: text,label"),
        ("utf-32-be", "read as UTF-32: text,label"),
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


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_the_sample_that_tells_the_encoding_may_end_within_an_emoji(encoding):
    text = "a" * (_SAMPLE // 2 - 1) + "\U0001f642 fine\n"
    assert converted(text.encode(encoding)) == text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_wide_text_that_is_cut_or_damaged_is_refused(encoding):
    data, half = f"\ufeff{TEXT}".encode(f"{encoding}-le"), "\ud83d".encode(f"{encoding}-le", "surrogatepass")
    for wrong in (data[:-1], data.replace("ä".encode(f"{encoding}-le"), half)):
        for block in (64, 1 << 20):
            with pytest.raises(DataError, match=f"x.csv: damaged or truncated {encoding.upper()} "):
                converted(wrong, block)


@pytest.mark.parametrize("text", ["name\nMarie\nRené", "name\r\nMarie\r\nRené\r\nJosé et André\r\n"])
def test_windows_letters_at_the_end_of_a_block_or_of_the_text_are_read(capsys, text):
    """The last byte of a block may begin a UTF-8 character."""
    data = text.encode("cp1252")
    for block in (data.index(b"\xe9") + 1, 1 << 20):
        assert converted(data, block) == text
        assert capsys.readouterr().err == "x.csv: not UTF-8; read as Windows-1252 (cp1252): René\n"


def test_a_byte_that_windows_lacks_is_named_by_its_line():
    """The byte is beyond the part of the text that determines the encoding."""
    with pytest.raises(DataError, match=r"^x\.csv, line 14001: byte 0x81 is none of Windows-1252"):
        converted("".join(f"Je suis déçu {n}\n" for n in range(14_000)).encode("cp1252") + b"\x81", 1 << 16)


def test_lines_are_counted_if_a_block_ends_within_a_line_ending():
    blocks = [b"a\r", b"\nb\r", "\nza mało, proszę zapłacić\r\n".encode("cp1250")]
    with pytest.raises(DataError, match=r"^x\.csv, line 3: not UTF-8"):
        list(as_utf8(blocks, "x.csv"))


OTHERS = {
    "Je suis très déçu par l’appareil": ("mac_roman", "cp850"),
    "viel zu teuer für März": ("mac_roman", "cp850"),
    "mal señor ¿por qué?": ("mac_roman", "cp850"),
    "請求書が高すぎます。確認してください": ("shift_jis", "euc_jp"),
    "청구서가 너무 높습니다": ("cp949",),
    "账单太高了请检查一下": ("gbk", "big5"),
    "Счёт за март слишком высок": ("cp1251", "koi8_r", "cp866"),
    "za mało, proszę zapłacić": ("cp1250", "iso8859_2"),
    "Účet za březen je příliš vysoký": ("cp1250", "iso8859_2"),
    "Kitűnő könyv, őszintén ajánlom. A számla összege túl magas": ("cp1250", "iso8859_2"),
    "Mart faturası çok yüksek değil": ("cp1254",),
    "Ο λογαριασμός είναι πολύ υψηλός": ("cp1253",),
    "החשבון גבוה מדי": ("cp1255",),
}


@pytest.mark.parametrize(
    ("text", "encoding"), [(text, encoding) for text, encodings in OTHERS.items() for encoding in encodings]
)
def test_other_encodings_are_refused_without_a_guess(tmp_path, text, encoding):
    """A wrong guess, such as cp949 for Shift_JIS, would be a command that gives other letters."""
    path = tmp_path / "x.csv"
    path.write_bytes(f"text,label\nplain,a\n{text},a\n".encode(encoding, "replace"))
    with pytest.raises(DataError, match=r"line 3\b.*not UTF-8|not UTF-8.*line 3\b") as caught:
        read_table(path)
    assert "iconv -f ENCODING -t utf-8 OLD > NEW" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "für",
        "Þetta er of dýrt, því miður",
        "«Ça va très bien», l’été dernier – c’est réglé",
        "Å være på ø",
        "As opções são boas, põe mais informações",
        "Hyvää päivää, täällä säätä on näin",
        "Jäääär on õhuke",
        "été\ndéjà vu\n© 2020 Acme® ™\njäätelöä syödään pöydän ääressä",
        "well…maybe, for a long–term 10 µm coat",
    ],
)
def test_western_languages_are_read(tmp_path, text):
    path = tmp_path / "x.tsv"
    texts = text.split("\n")
    path.write_bytes("\n".join(["text", *texts]).encode("cp1252"))
    assert read_table(path).columns["text"] == texts


@pytest.mark.parametrize("broken", ["čaj, caf\udce9", "caf\udce9, čaj čaj"])
def test_utf8_with_a_fault_stays_one(tmp_path, broken):
    """A single wrong byte in UTF-8 does not turn the other characters into those of Windows-1252."""
    path = tmp_path / "x.csv"
    path.write_bytes(f'text,label\n"{broken}",a\n'.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=r"not UTF-8 at byte offset \d+ \(line 2, byte 0xe9"):
        read_table(path)


def test_good_lines_are_not_converted(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes("text,label\nčaj a káva,a\nčaj,b\n".encode() + b"caf\xe9,a\n")
    with pytest.raises(DataError, match=r"line 4, byte 0xe9.*most of the text is UTF-8, so mend this line$") as caught:
        read_table(path)
    assert "iconv" not in str(caught.value)


def test_the_fingerprint_is_that_of_the_file(tmp_path):
    fingerprints = set()
    for name, encoding in (("a.csv", "cp1252"), ("b.csv", "utf-8")):
        (tmp_path / name).write_bytes(TEXT.encode(encoding))
        table = read_table(tmp_path / name)
        assert table.columns["text"][1] == "Die Rechnung für März – „zu hoch“ – 5 €"
        assert list(table.lines) == [2, 3, 4]
        fingerprints.add(table.fingerprint)
    assert len(fingerprints) == 2
