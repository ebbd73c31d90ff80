"""Rows of a CSV file, and the pairs in the rows of any published table.

An unreadable row spoils no other row.
"""

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from unicodedata import normalize

from vrthinker_core.errors import BadInput, os_errors
from vrthinker_core.types import Dimension, Preference, Verdict, VideoPair
from vrthinker_core.words import encodable


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
    """One row of a data set as text by column. With a `fault` it could not be read."""

    number: int  # 1-based
    values: Mapping[str, str]
    fault: str = ""


@dataclass(frozen=True, slots=True)
class PairLayout:
    """The columns of a data set."""

    videos: tuple[str, str]
    prompt: str
    labels: Mapping[Dimension, str]
    generators: tuple[str, str]
    words: Mapping[str, Preference]  # values of the label columns, in lower case
    # Values for people who could not decide: overall they leave the row out, else are no label
    undecided: frozenset[str] = frozenset()


def make_pairs(
    rows: Iterable[TableRow], layout: PairLayout, find: FindVideo
) -> list[EvaluationPair]:
    """Return the pairs of all rows, in row order, with unique ids.

    An error in a row becomes the `fault` of its pair. A row with the labels of an earlier one is a
    broken row; with other labels it is its own pair.
    """
    pairs = [_make_pair(row, layout, find) for row in rows]
    groups: dict[str, list[int]] = defaultdict(list)
    for position, pair in enumerate(pairs):
        groups[pair.id].append(position)
    for positions in groups.values():
        if len(positions) > 1:
            _name_group(pairs, positions)
    return pairs


def find_below(folder: Path, name: str, *, absolute: bool = False) -> Path:
    """Return a file below `folder`, or with `absolute` anywhere. Raises `BadInput`."""
    if not name:
        raise BadInput("A video is not named.")
    if "://" in name:
        raise BadInput(
            f"{_short(name)} is an address: download the video and give its path on this machine."
        )
    for spelled in _spellings(name):
        full = PurePosixPath(spelled).is_absolute() or PureWindowsPath(spelled).is_absolute()
        if full and not absolute:
            raise BadInput(
                f"{_short(name)} is a full path: the videos of this data set lie in its own folder."
            )
        if not full and Path(os.path.normpath(spelled)).parts[:1] == ("..",):
            advice = ": give the full path" if absolute else ""
            raise BadInput(f"{_short(name)} leaves the folder of the data set{advice}.")
    return existing_file(folder, name)


def existing_file(folder: Path, name: str) -> Path:
    """Return the file `name`, relative to `folder` or as a full path.

    If no such file exists, tries the accents and separators of other systems.
    Raises `BadInput` with one sentence.
    """
    try:
        for spelled in _spellings(name):
            path = folder / (spelled if Path(spelled).is_absolute() else os.path.normpath(spelled))
            if path.is_file() or (path := _as_stored(path)).is_file():
                return path
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{_short(name)} cannot be a file: {getattr(error, 'strerror', None) or error}."
        ) from None
    raise BadInput(f"There is no file {_short(name)}.")


def _spellings(name: str) -> Iterable[str]:
    return dict.fromkeys((name, name.replace("\\", "/")))


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


def as_text(value: object) -> str:
    """Return a table value as text, "" for None and NaN."""
    return "" if value is None or value != value else str(value)


def text_in(row: TableRow, column: str) -> str:
    """Return a field without space around it, "" for a missing value."""
    text = row.values.get(column, "").strip()
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
    left_out = ""
    for dimension, column in layout.labels.items():
        text = row.values.get(column, "").strip()
        word = text.lower()
        if word in layout.undecided:
            left_out = f'People found it "{text}".' if dimension is Dimension.OA else left_out
        elif word in layout.words:
            labels[dimension.value] = layout.words[word]
        elif word not in MISSING:
            raise BadInput(
                f"{column} is {_short(text)!r}, which is no label. Labels are "
                f"{', '.join(layout.words)}."
            )
    return Verdict(**labels), left_out


def _name_group(pairs: list[EvaluationPair], positions: list[int]) -> None:
    """Rename the rows of one pair. Rows that can be judged come first."""
    told = {pairs[position].labels for position in positions}
    seen: dict[str, int] = {}  # first row of each name
    repeats = 0
    positions.sort(key=lambda position: bool(pairs[position].fault or pairs[position].left_out))
    for position in positions:
        pair = pairs[position]
        name = pair.id
        if len(told) > 1:  # such as "-1x20": a character per dimension, x without a label
            labels = ("x" if label is None else str(int(label)) for _, label in pair.labels)
            name = f"{name}-{''.join(labels)}"
        if name in seen:
            repeats += 1
            fault = pair.fault or f"The row repeats row {seen[name]}, which counts."
            pairs[position] = replace(pair, id=f"{name}-again{repeats}", fault=fault, left_out="")
        else:
            seen[name] = pair.row
            pairs[position] = replace(pair, id=name)


def _short(text: str) -> str:
    return encodable(text if len(text) <= 120 else f"{text[:60]}…{text[-59:]}")


SEPARATOR_LINE = re.compile(r'\s*"?sep=(\\t|[^\w"\r\n])[^\w\r\n]*(?:\r\n?|\n|\Z)', re.IGNORECASE)
"""Excel's own first line `sep=;`, maybe quoted or with empty fields from another program."""

_UNSEEN = re.compile("\\A[\ufeff\u200b-\u200f\u2028-\u202e\u2060\x00-\x08]+")
_NO_TABLES = {
    b"PK\x03\x04": "an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an Excel workbook",
    b"\x1f\x8b": "compressed with gzip",
}


def read_table(
    path: Path, needed: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[TableRow]:
    """Yield the rows under the header line.

    Column names ignore case. Excel's line `sep=` sets the separator; without it, `,`, `;` or tabs
    separate columns.

    Raises `BadInput` if the file cannot be read, or if a needed column is missing.
    """
    text = _decoded(path)
    said = SEPARATOR_LINE.match(text)
    text = text[said.end() if said else 0 :]
    first = re.search(r"\S[^\r\n]*", text)
    if first is None:
        raise BadInput(f"{path.name} is empty.")
    told = said[1].replace("\\t", "\t") if said else ""
    delimiter = told if told and told in first[0] else max(",;\t", key=first[0].count)
    records = _records(text, delimiter)
    header, fault = next(records, ([], ""))
    if fault:
        raise BadInput(f"The header of {path.name} cannot be read: {fault}.")
    known = {column.lower(): column for column in (*needed, *optional)}
    columns = [known.get(name.strip().lower(), name.strip()) for name in header]
    check_columns(columns, needed, path.name)
    mark = "a tab" if delimiter == "\t" else delimiter
    for number, (values, fault) in enumerate(records, start=1):
        values = _fitted(values, columns, known)
        if fault:
            fault = f"The row cannot be read: {fault}."
        elif len(values) != len(columns):
            fault = (
                f"The row has {len(values)} fields and the header {len(columns)}: put a text that "
                f"holds {mark} in quotation marks."
            )
        elif any("\udc80" <= character <= "\udcff" for value in values for character in value):
            fault = "The row is not UTF-8: save the table as UTF-8."
        yield TableRow(number, dict(zip(columns, values, strict=False)), fault)


def _decoded(path: Path) -> str:
    """Return the text without invisible characters before it; raises `BadInput`."""
    with os_errors(f"Cannot read {path}"):
        data = path.read_bytes()
    named = next((each for start, each in _NO_TABLES.items() if data.startswith(start)), "")
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    # Bytes that are not UTF-8 become surrogates, found later per row
    text = data.decode("utf-16", "replace") if wide else data.decode("utf-8", "surrogateescape")
    text = _UNSEEN.sub("", text, count=1)
    if re.match(r'\s*(?:\{\s*["}]|\[\s*[\[{\]])', text):
        named = "JSON"
    if named:
        raise BadInput(f"{path.name} is {named}, no CSV: save or unpack it as one.")
    return text


def _fitted(values: list[str], columns: Sequence[str], known: Mapping[str, str]) -> list[str]:
    """Drop extra empty fields; fill up with empty ones, unless for a known column."""
    while len(values) > len(columns) and not values[-1].strip():
        values = values[:-1]
    left_out = columns[len(values) :]
    if any(column in known.values() for column in left_out):
        return values
    return [*values, *("" for _ in left_out)]


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
