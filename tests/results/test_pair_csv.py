"""A person's own table of pairs, however it was saved and whatever stands in it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from unicodedata import normalize

import pytest

from tests.evaluation.support.public_files import touch
from tests.training.tables import PAIRED
from vrthinker_core.errors import BadInput
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.open_dataset import read_dataset
from vrthinker_core.training.data import open_pairs
from vrthinker_core.types import Preference, Verdict

HEADER = "video1,video2,prompt,TA,MQ,VQ,OA\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The path of a table beside which two videos lie."""
    touch(tmp_path / "a.mp4")
    touch(tmp_path / "b.mp4")
    return tmp_path / "pairs.csv"


def read(table: Path, text: str | bytes) -> list[EvaluationPair]:
    table.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_dataset("csv", table)


WORDS = {
    Preference.FIRST: ("1", "A", "a", "first", "First", " 1 ", "1.0"),
    Preference.SECOND: ("2", "B", "second", "2.0"),
    Preference.TIE: ("0", "tie", "Tie", "same", "SAME", "0.0"),
    None: ("", "nan", "NaN", "None"),
}


def test_words_for_a_label_and_any_other_is_never_a_tie(table: Path) -> None:
    for label, word in ((label, word) for label, words in WORDS.items() for word in words):
        (pair,) = read(table, f"{HEADER}a.mp4,b.mp4,A ball rolls.,{word},,,\n")
        assert (pair.labels, pair.fault) == (Verdict(TA=label), ""), word
    for word in ("Hard to judge", "Video 1 Better", "3", "-1", "1.5", "yes", "1,5"):
        (pair,) = read(table, f'{HEADER}a.mp4,b.mp4,A ball rolls.,"{word}",0,0,0\n')
        assert pair.fault.startswith(f"TA is {word!r}, which is no label.")
        assert pair.labels == Verdict()


PLAIN = f"{HEADER}a.mp4,b.mp4,Ein Bär.,1,2,0,1\n"
QUOTED = '"video1" , "video2","prompt" ,"TA","MQ","VQ","OA"\n "a.mp4",\t"b.mp4"\xa0,  "Ein Bär." , 1,2 ,0,"1" \n'
FIELDS = ("a.mp4", "b.mp4", "Ein Bär.", "1", "2", "0", "1")
ROW = dict(zip(HEADER.strip().split(","), FIELDS, strict=True))
SAVED = {
    "JSON": json.dumps([ROW]).encode(),
    "JSON lines": b"\xef\xbb\xbf\n" + json.dumps(ROW | {"TA": 1, "more": None}).encode(),
    "BOM": PLAIN.encode("utf-8-sig"),
    "semicolons": PLAIN.replace(",", ";").encode(),
    "UTF-16 with tabs": PLAIN.replace(",", "\t").encode("utf-16"),
    "CRLF, empty lines": PLAIN.replace("OA\n", "OA\n\n").replace("\n", "\r\n").encode(),
    "CR": PLAIN.replace("\n", "\r").encode(),
    "other case": b"\n" + PLAIN.replace(HEADER, HEADER.upper()).encode(),
    "spaces": PLAIN.replace(",", ", ").encode(),
    "space around quotes": QUOTED.encode(),
}


@pytest.mark.parametrize("data", SAVED.values(), ids=SAVED)
def test_a_table_is_read_however_it_was_saved(table: Path, data: bytes) -> None:
    (pair,) = read(table, data)
    assert (pair.prompt, pair.fault) == ("Ein Bär.", "")
    first, second, tie = Preference.FIRST, Preference.SECOND, Preference.TIE
    assert pair.labels == Verdict(TA=first, MQ=second, VQ=tie, OA=first)


@pytest.mark.parametrize(
    ("first", "mark", "code", "end"),
    [
        ("sep=;", ";", "utf-8-sig", "\r\n"),
        ('"sep=;"', ";", "utf-16", "\n"),
        ("\n SEP=;;;;;", ";", "utf-8", "\r"),
        ("sep=,", ",", "utf-8-sig", "\r\n"),
        ("sep=\t", "\t", "utf-16", "\n"),
        ("sep=\\t", "\t", "utf-8", "\r"),
        ("sep=|", "|", "utf-8-sig", "\r\n"),
    ],
)
def test_the_first_line_of_excel_is_no_row(
    table: Path, first: str, mark: str, code: str, end: str
) -> None:
    note = f'"{(";" if mark == "," else ",") * 9}"'  # there are more of another mark
    header = ["video1", "video2", "prompt", note, "TA"]
    row = ["a.mp4", "b.mp4", '"One, two; three|four\tfive"', "", "2"]
    (pair,) = read(table, end.join([first, mark.join(header), mark.join(row), ""]).encode(code))
    assert (pair.row, pair.fault, pair.prompt) == (1, "", "One, two; three|four\tfive")
    assert pair.labels == Verdict(TA=Preference.SECOND)
    (again,) = read(table, f"sep=;\n{HEADER}a.mp4,b.mp4,P,2,,,\n")
    assert again.labels == pair.labels, "another program wrote the table anew"


@pytest.mark.parametrize("broken", ["a.mp4,b.mp4,P,3,,,\n", "a.mp4,b.mp4,P,,,,,x\n"])
def test_a_broken_row_does_not_stand_for_a_good_copy_of_it(table: Path, broken: str) -> None:
    good = "a.mp4,b.mp4,P,,,,\n"
    (alone,) = read(table, HEADER + good)
    for rows, place in ((broken + good, 1), (good + broken, 0)):
        pairs = read(table, HEADER + rows)
        assert (pairs[place].id, pairs[place].fault) == (alone.id, "")
        assert pairs[1 - place].fault
        assert "repeats" not in pairs[1 - place].fault


def test_a_broken_row_costs_itself_alone(table: Path) -> None:
    good = "a.mp4,b.mp4,Prompt {},1,2,0,1\n"
    bad = {
        2: b"a.mp4,b.mp4,Ein B\xe4r.,1,2,0,1\n",
        4: b'a.mp4,b.mp4,"never closed,1,2,0,1\n',
        6: b"a.mp4,b.mp4,one, two, three,1,2,0,1\n",
        8: b"a.mp4\n",
        10: b'a.mp4,b.mp4,"half "quoted" text",1,2,0,1\n',
        12: b"a.mp4,b\x00.mp4,P,1,2,0,1\n",
        14: b"a.mp4," + b"b" * 300 + b".mp4,P,1,2,0,1\n",
        16: b"a.mp4,b.mp4," + b"x" * 140_000 + b",1,2,0,1\n",
    }
    rows = [bad.get(number) or good.format(number).encode() for number in range(1, 18)]
    pairs = read(table, HEADER.encode() + b"".join(rows))
    assert [pair.row for pair in pairs if not pair.fault] == list(range(1, 18, 2))
    prompts = [pair.prompt for pair in pairs if not pair.fault]
    assert prompts == [f"Prompt {number}" for number in range(1, 18, 2)]
    sentences = {pair.row: pair.fault for pair in pairs if pair.fault}
    marks = "quotation marks do not pair up"
    parts = {2: "save the table as UTF-8", 4: marks, 6: "has 9 fields and the header 7"}
    parts |= {8: "has 1 fields and the header 7", 10: marks, 16: "a field of it is too long"}
    assert [row for row, part in parts.items() if part not in sentences[row]] == []
    assert all(sentence.endswith(".") and "\n" not in sentence for sentence in sentences.values())


@pytest.mark.parametrize("space", ["", " ", "\t  "])
def test_a_prompt_may_hold_commas_quotes_and_lines(table: Path, space: str) -> None:
    row = f'a.mp4,b.mp4,{space}"One, ""two"" ,\nthree\u2028four"{space},1,2,0,1\n'
    (pair,) = read(table, HEADER + row)
    assert pair.prompt == 'One, "two" ,\nthree\u2028four'
    rows = f'a.mp4,b.mp4,{space}A "red" ball,1,,,\na.mp4,b.mp4,{space}"No end,1,,,\n'
    inside, open_end = read(table, HEADER + rows)
    assert inside.prompt == 'A "red" ball', "marks within a text are part of it"
    assert "quotation marks do not pair up" in open_end.fault


def test_paths_are_those_of_the_table_or_full(table: Path, tmp_path: Path) -> None:
    elsewhere = touch(tmp_path / "deeper" / "c.mp4")
    firsts = ("../a.mp4", "file:///a.mp4", "", tmp_path)
    rows = "".join(f"{first},b.mp4,P,,,,\n" for first in firsts)
    full, *pairs = read(table, f"{HEADER}a.mp4,{elsewhere},P,,,,\n{rows}")
    assert (full.first, full.second) == (str(tmp_path / "a.mp4"), str(elsewhere))
    assert [full.fault, *(pair.fault for pair in pairs)] == [
        "",
        "There is no file ../a.mp4.",
        "There is no file file:///a.mp4. Download the video, and name its file.",
        "A video is not named.",
        f"There is no file {tmp_path}.",
    ]


NFC, NFD = (normalize(form, "café/été.mp4") for form in ("NFC", "NFD"))


@pytest.mark.parametrize(
    ("stored", "named"),
    [
        (NFD, NFC),
        (NFC, NFD),
        (f"{NFD.partition('/')[0]}/{NFC.partition('/')[2]}", NFC),
        ("videos/a.mp4", "videos\\a.mp4"),
        (NFD, NFC.replace("/", "\\")),
        ("c.mp4", "sub/../c.mp4"),
        ("c.mp4", ".\\sub\\..\\c.mp4"),
        ("videos\\a.mp4", "videos\\a.mp4"),
        ("..c.mp4", "..c.mp4"),
    ],
)
def test_a_file_is_found_as_another_system_names_it(table: Path, stored: str, named: str) -> None:
    file = touch(table.parent / stored)
    (pair,) = read(table, f"{HEADER}{named},b.mp4,P,,,,\n")
    assert (pair.fault, pair.first) == ("", str(file))
    (full,) = read(table, f"{HEADER}{table.parent}/{named},b.mp4,P,,,,\n")
    assert not full.fault or ".." in named


def test_a_name_counts_as_it_stands_before_any_other_way_to_read_it(table: Path) -> None:
    for other in ("videos/a.mp4", "videos\\a.mp4", NFC, NFD):
        touch(table.parent / other)
    for name in ("videos\\a.mp4", NFC, NFD):
        (pair,) = read(table, f"{HEADER}{name},b.mp4,P,,,,\n")
        assert pair.first == str(table.parent / name)


@pytest.mark.parametrize("name", ["../c.mp4", r"..\c.mp4", "sub/../../c.mp4", r"sub\..\..\c.mp4"])
def test_a_name_that_leaves_the_folder_is_refused(table: Path, name: str) -> None:
    touch(table.parent.parent / "c.mp4")
    (pair,) = read(table, f"{HEADER}{name},b.mp4,P,,,,\n")
    assert "leaves the folder of the data set: give the full path" in pair.fault


def test_without_labels_and_with_generators(table: Path) -> None:
    rows = "model2,prompt,video2,video1,model1\nKling,P,b.mp4,a.mp4,Sora,,\n"
    (pair,) = read(table, rows)  # fields that say nothing cost no row
    assert pair.labels == Verdict()
    assert (pair.first_generator, pair.second_generator) == ("Sora", "Kling")


NO_TABLES = {
    **dict.fromkeys((b"", b"\n\n", b"\xff\xfe"), "is empty"),
    **dict.fromkeys((HEADER.encode(), b"[]", b"{no json", b'"text"', b"7" * 5000), "holds no pair"),
    **dict.fromkeys(
        (b"{]", b"a,b\n1,2\n", b"{}", b"[\n []\n]"), "has no column video1|holds no pair"
    ),
    **dict.fromkeys((b"[" * 9999, b'[{"a": "\xff"}]', b'{"a": 1\n'), "is no JSON in UTF-8"),
    HEADER.replace("TA", "OA").encode(): "has the column OA twice",
    b'[{"video1": "a", "prompt": 7}]': "has no column video2. It needs video1, video2, prompt.",
    b'"video1\n': "cannot be read: its quotation marks do not pair up",
    b"PAR1 and nothing else": "it is damaged",
    **dict.fromkeys((b"PK\x03\x04..", b"\xd0\xcf\x11\xe0.."), "is an Excel workbook"),
    gzip.compress(HEADER.encode(), mtime=0): "is compressed with gzip",
}


@pytest.mark.parametrize("data", NO_TABLES)
def test_a_table_that_is_none_is_refused(table: Path, data: bytes) -> None:
    for opened in (read, lambda *_: open_pairs(str(table), PAIRED)):
        with pytest.raises(BadInput, match=rf"^[^\n]*pairs.csv[^\n]*({NO_TABLES[data]})[^\n]*$"):
            opened(table, data)


def test_a_missing_text_is_missing_in_any_spelling(table: Path) -> None:
    for word in ("nan", "NaN", "None", "null", "n/a", "<NA>", " "):
        pairs = read(table, f"{HEADER}a.mp4,b.mp4,{word},1,0,2,1\n{word},b.mp4,A ball.,1,0,2,1\n")
        assert [pair.fault for pair in pairs] == ["The prompt is missing.", "A video is not named."]


@pytest.mark.parametrize("unseen", ["\ufeff", "\ufeff\ufeff", "\u200b", "\u2060\ufeff", "\x00"])
def test_invisible_characters_before_the_header_are_no_part_of_it(table: Path, unseen: str) -> None:
    (pair,) = read(table, f"{unseen}{HEADER}a.mp4,b.mp4,A ball.,1,0,2,1\n")
    assert (pair.fault, pair.prompt) == ("", "A ball.")
