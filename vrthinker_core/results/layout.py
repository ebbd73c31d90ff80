"""Rows of a table, and the pairs in the rows of any layout.

An unreadable row spoils no other row.
"""

import hashlib
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from unicodedata import normalize

from vrthinker_core.errors import BadInput, os_errors
from vrthinker_core.types import Dimension, Preference, Verdict, VideoPair
from vrthinker_core.words import encodable, filled_lines


@dataclass(frozen=True, slots=True)
class EvaluationPair:
    """A pair in any published layout. With `fault` or `left_out` it is never judged."""

    id: str  # unique in its data set and independent of the row: see `pair_id`
    row: int  # data row in the file, 1-based
    prompt: str
    first: str  # path of the video, ready to open
    second: str
    labels: Verdict = Verdict()  # of people; None in a dimension without a label
    first_generator: str = ""  # model that made the first video; "" if unknown
    second_generator: str = ""
    fault: str = ""  # why the row cannot be judged, in one sentence
    left_out: str = ""  # why a sound row is not judged: people could not decide

    @property
    def videos(self) -> VideoPair:
        """The pair as a judge gets it."""
        return VideoPair(self.prompt, self.first, self.second)


def pair_id(prompt: str, first: str, second: str) -> str:
    """Return the id of a pair, 16 hex digits.

    Made from the prompt and the video names in the data set, not from the data set's folder.
    """
    named = "\n".join((prompt, first, second)).encode("utf-8", "replace")
    return hashlib.sha256(named).hexdigest()[:16]


# Spellings of a missing value in tables, in lower case.
MISSING = frozenset(("", "nan", "none", "null", "n/a", "<na>"))

# Returns the file of a row's video, or raises `BadInput` with the reason not to judge the row.
FindVideo = Callable[[str], Path]


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a data set by column. With a `fault` it could not be read."""

    number: int  # 1-based
    values: Mapping[str, Any]  # Text of a CSV, else whatever the file holds
    fault: str = ""


VALUES = (Preference.FIRST, Preference.SECOND, Preference.TIE)


@dataclass(frozen=True, slots=True)
class PairLayout:
    """The columns of a data set, and where it is."""

    videos: tuple[str, str]
    prompt: str
    generators: tuple[str, str]
    labels: Mapping[str, str]  # Column of each dimension
    values: Sequence[Sequence[str]]  # Of the label columns, in lower case: for 1, 2 and a tie
    undecided: str = ""  # What people chose who could not: overall, it leaves the row out
    needed: tuple[str, ...] = ()  # Columns without which an evaluation refuses a table
    files: str = ""  # Patterns of the tables in the folder, with spaces between
    source: str = ""  # Name on the Hub, and what else is to do
    by_name: bool = False  # The table has addresses: videos are found by name

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, the videos and the prompt first."""
        return *self.videos, self.prompt, *self.labels.values(), *self.generators


def make_pairs(
    rows: Iterable[TableRow], layout: PairLayout, find: FindVideo
) -> list[EvaluationPair]:
    """Return the pairs of all rows, in row order, with unique ids.

    An error in a row becomes the `fault` of its pair. A row with the labels of an earlier one is a
    broken row; with other labels it is its own pair. Rows that can be judged come first in this.
    """
    pairs = [_make_pair(row, layout, find) for row in rows]
    told: dict[str, set[Verdict]] = defaultdict(set)
    for pair in pairs:
        told[pair.id].add(pair.labels)
    seen: dict[str, int] = {}  # First row of each name
    repeats: Counter[str] = Counter()
    good_first = sorted(range(len(pairs)), key=lambda n: bool(pairs[n].fault or pairs[n].left_out))
    for place in good_first:
        pair = pairs[place]
        name = pair.id
        if len(told[pair.id]) > 1:  # such as "-1x20": a character per dimension, x without a label
            labels = ("x" if label is None else str(int(label)) for _, label in pair.labels)
            name = f"{name}-{''.join(labels)}"
        if (row := seen.setdefault(name, pair.row)) != pair.row:
            repeats[pair.id] += 1
            name = f"{name}-again{repeats[pair.id]}"
            fault = pair.fault or f"The row repeats row {row}, which counts."
            pair = replace(pair, fault=fault, left_out="")
        pairs[place] = replace(pair, id=name)
    return pairs


def video_finder(folder: Path, root: Path | None = None, *, absolute: bool = False) -> FindVideo:
    """Return how a table finds its videos: below its `folder`, or with `absolute` anywhere.

    With `root`, a name or an address alone may also be a file anywhere below `root`.
    """
    inner = Path(os.path.normpath(folder))

    @cache
    def by_name() -> dict[str, Path]:
        files = sorted((root or folder).rglob("*.*"), reverse=True)
        return {each.name.lower(): each for each in files if each.is_file()}

    def find(name: str) -> Path:
        own = name.rpartition("/")[2]
        try:
            path = existing_file(folder, name)
            inside = inner in Path(os.path.normpath(path)).parents
            if absolute if Path(name).is_absolute() else inside:
                return path
            advice = ": give the full path" if absolute else ""
            raise BadInput(f"{_short(name)} leaves the folder of the data set{advice}.")
        except BadInput:
            known = by_name() if root and (own == name or "://" in name) else {}
            if own.lower() not in known:
                raise
            return known[own.lower()]

    return find


def existing_file(folder: Path, name: str) -> Path:
    """Return the file `name`, relative to `folder` or as a full path.

    If no such file exists, tries the accents and separators of other systems.
    Raises `BadInput` with one sentence.
    """
    if not name:
        raise BadInput("A video is not named.")
    try:
        for spelled in dict.fromkeys((name, name.replace("\\", "/"))):
            path = folder / (spelled if Path(spelled).is_absolute() else os.path.normpath(spelled))
            if path.is_file() or (path := _as_stored(path)).is_file():
                return path
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{_short(name)} cannot be a file: {getattr(error, 'strerror', None) or error}."
        ) from None
    advice = " Download the video, and name its file." if "://" in name else ""
    raise BadInput(f"There is no file {_short(name)}.{advice}")


def _as_stored(path: Path) -> Path:
    """Find the disk's Unicode form: macOS may store decomposed accents (NFD)."""
    found = Path()
    for part in path.parts:
        forms = (found / form for form in (part, normalize("NFC", part), normalize("NFD", part)))
        found = next((form for form in forms if form.exists()), found / part)
    return found


def check_columns(columns: Sequence[str], needed: Sequence[str], file: str) -> None:
    """Raise `BadInput` if a needed column is missing or any is repeated."""
    for column in needed:
        if column not in columns:
            raise BadInput(f"{file} has no column {column}. It needs {', '.join(needed)}.")
    for column in columns:
        if column and columns.count(column) > 1:
            raise BadInput(f"{file} has the column {encodable(column)} twice: rename one of them.")


def text_in(row: TableRow, column: str) -> str:
    """Return a field without space around it, "" for a missing value."""
    value = row.values.get(column)
    text = "" if value is None else str(value).strip()
    return "" if text.lower() in MISSING else text


def _make_pair(row: TableRow, layout: PairLayout, find: FindVideo) -> EvaluationPair:
    texts = [text_in(row, column) for column in (layout.prompt, *layout.videos, *layout.generators)]
    prompt, first, second, *generators = map(encodable, texts)
    identity = pair_id(prompt, first, second)
    pair = EvaluationPair(identity, row.number, prompt, first, second, Verdict(), *generators)
    try:
        if row.fault:
            raise BadInput(row.fault)
        labels, left_out = _labels(row, layout)
        pair = replace(pair, labels=labels, left_out=encodable(left_out))
        if left_out:
            return pair
        videos = [str(find(name)) for name in texts[1:3]]
        if any(video != encodable(video) for video in videos):
            raise BadInput("The path of a video is not UTF-8: rename the file, or its folder.")
        pair = replace(pair, first=videos[0], second=videos[1])
        if not prompt:
            raise BadInput("The prompt is missing.")
    except BadInput as bad:
        return replace(pair, fault=encodable(str(bad)))
    return pair


def _labels(row: TableRow, layout: PairLayout) -> tuple[Verdict, str]:
    """Return labels and why the row is left out; raises `BadInput`."""
    labels: dict[str, Preference] = {}
    known = {
        text: label for label, texts in zip(VALUES, layout.values, strict=True) for text in texts
    }
    left_out = ""
    for dimension, column in layout.labels.items():
        text = text_in(row, column)
        if text.lower() in known:
            labels[dimension] = known[text.lower()]
        elif text and text.lower() != layout.undecided:
            raise BadInput(
                f"{column} is {_short(text)!r}, which is no label. Labels are {', '.join(known)}."
            )
        elif text and dimension == Dimension.OA:
            left_out = f'People found it "{text}".'
    return Verdict(**labels), left_out


def _short(text: str) -> str:
    return encodable(text if len(text) <= 120 else f"{text[:60]}…{text[-59:]}")


SEPARATOR_LINE = re.compile(r'\s*"?sep=(\\t|[^\w"\r\n])[^\w\r\n]*(?:\r\n?|\n|\Z)', re.IGNORECASE)
"""Excel's own first line `sep=;`, maybe quoted or with empty fields from another program."""

_UNSEEN = re.compile("\\A[\ufeff\u200b-\u200f\u2028-\u202e\u2060\x00-\x08]+")
_JSON = re.compile(r'\s*(?:\{\s*["}]|\[\s*[\[{\]"])')
_NO_TABLES = {
    b"PK\x03\x04": "an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an Excel workbook",
    b"\x1f\x8b": "compressed with gzip",
}


def read_table(
    path: Path, needed: Sequence[str] = (), optional: Sequence[str] = ()
) -> Iterator[TableRow]:
    """Yield the rows of a table in CSV, JSON, JSON lines or Parquet, as its bytes tell.

    Names of known columns ignore case in a CSV. Excel's line `sep=` sets its separator; without
    it, `,`, `;` or tabs separate columns.

    Raises `BadInput` if the file cannot be read, or if a CSV lacks a needed column.
    """
    with os_errors(f"Cannot read {path}"), path.open("rb") as file:
        packed = file.read(4) == b"PAR1"
    text = "" if packed else _decoded(path)
    if not packed and not _JSON.match(text):
        yield from _csv_rows(text, path.name, needed, (*needed, *optional))
        return
    for number, item in enumerate(_parquet(path) if packed else _json(text, path.name), start=1):
        known = isinstance(item, dict)
        yield TableRow(number, item if known else {}, "" if known else "The row is no JSON object.")


def _parquet(path: Path) -> Iterator[Any]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise BadInput("Reading Parquet takes pyarrow: run pip install -e '.[evaluate]'.") from None
    try:
        for batch in parquet.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
    except (OSError, ArrowException) as error:
        reason = getattr(error, "strerror", None) or "it is damaged"
        raise BadInput(f"Cannot read {path}: {reason}.") from None


def _json(text: str, name: str) -> Iterable[Any]:
    lines = [text] if text.lstrip().startswith("[") else filled_lines(text).values()
    try:  # Bytes, because only these are checked to be UTF-8
        items = [json.loads(line.encode("utf-8", "surrogateescape")) for line in lines]
    except (ValueError, RecursionError):
        raise BadInput(f"{name} is no JSON in UTF-8.") from None
    return items[0] if isinstance(items[0], list) else items


def _csv_rows(
    text: str, name: str, needed: Sequence[str], named: Sequence[str]
) -> Iterator[TableRow]:
    said = SEPARATOR_LINE.match(text)
    text = text[said.end() if said else 0 :]
    first = re.search(r"\S[^\r\n]*", text)
    if first is None:
        raise BadInput(f"{name} is empty.")
    told = said[1].replace("\\t", "\t") if said else ""
    delimiter = told if told and told in first[0] else max(",;\t", key=first[0].count)
    records = _records(text, delimiter)
    header, fault = next(records, ([], ""))
    if fault:
        raise BadInput(f"The header of {name} cannot be read: {fault}.")
    known = {column.lower(): column for column in named}
    columns = [known.get(column.strip().lower(), column.strip()) for column in header]
    check_columns(columns, needed, name)
    mark = "a tab" if delimiter == "\t" else delimiter
    for number, (values, fault) in enumerate(records, start=1):
        while len(values) > len(columns) and not values[-1].strip():
            values.pop()
        # Fields that a row lacks at its end are empty, unless for a known column
        if fault:
            fault = f"The row cannot be read: {fault}."
        elif len(values) > len(columns) or {*columns[len(values) :]} & {*named}:
            fault = (
                f"The row has {len(values)} fields and the header {len(columns)}: put a text that "
                f"holds {mark} in quotation marks."
            )
        elif re.search("[\udc80-\udcff]", "".join(values)):
            fault = "The row is not UTF-8: save the table as UTF-8."
        whole = dict.fromkeys(columns, "") | dict(zip(columns, values, strict=False))
        yield TableRow(number, whole, fault)


def _decoded(path: Path) -> str:
    """Return the text without invisible characters before it; raises `BadInput`."""
    with os_errors(f"Cannot read {path}"):
        data = path.read_bytes()
    for start, named in _NO_TABLES.items():
        if data.startswith(start):
            raise BadInput(f"{path.name} is {named}, no table: save or unpack it as CSV.")
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    # Bytes that are not UTF-8 become surrogates, found later per row
    text = data.decode("utf-16", "replace") if wide else data.decode("utf-8", "surrogateescape")
    return _UNSEEN.sub("", text, count=1)


def _records(text: str, delimiter: str) -> Iterator[tuple[list[str], str]]:
    """Yield each record, and the cause if it cannot be read.

    After an unreadable record, goes on with the next line. Space around quotation marks is no part
    of the text, because people write `a.mp4, "one, two"`.
    """
    mark = re.escape(delimiter)
    space = rf"[^\S\r\n{mark}]*+"
    field = re.compile(
        rf'{space}(?:"([^"]*+(?:""[^"]*+)*+)"{space}|((?!")[^\r\n{mark}]*))({mark}|\r\n?|\n|\Z)'
    )
    line_end = re.compile(r"\r\n?|\n|\Z")
    start = 0
    while start < len(text):
        values, place, fault = list[str](), start, ""
        while found := field.match(text, place):
            values.append(found[2] if found[1] is None else found[1].replace('""', '"'))
            place = found.end()
            if found[3] != delimiter:
                break
        else:
            fault = (
                "its quotation marks do not pair up: put the text in a pair of them and double "
                "those within it"
            )
        if any(len(value) > 2**17 for value in values):
            fault = "a field of it is too long"
        if fault:
            values, place = [], next(line_end.finditer(text, start)).end()
        if fault or any(values):
            yield values, fault
        start = place
