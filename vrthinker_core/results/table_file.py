"""Rows of a CSV file; an unreadable row spoils no other row."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.results.layout import TableRow, check_columns

DELIMITERS = ",;\t"
SEPARATOR_LINE = re.compile(r'\s*"?sep=(\\t|[^\w"\r\n])[^\w\r\n]*(?:\r\n?|\n|\Z)', re.IGNORECASE)
"""Excel's own first line `sep=;`, maybe quoted or with empty fields from another program."""
FILLED_LINE = re.compile(r"\S[^\r\n]*")
LINE_END = re.compile(r"\r\n?|\n|\Z")
LONGEST = 2**17  # characters of one field
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
QUOTES = (
    "its quotation marks do not pair up: put the text in a pair of them and double those within it"
)


def read_table(
    path: Path, needed: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[TableRow]:
    """Yield the rows under the header line.

    Column names ignore case. Excel's line `sep=` sets the separator; without it, `,`, `;` or tabs
    separate columns.

    Raises `BadInput` if the file cannot be read, or if a needed column is missing.
    """
    text = _read_text(path)
    said = SEPARATOR_LINE.match(text)
    text = text[said.end() if said else 0 :]
    first = FILLED_LINE.search(text)
    if first is None:
        raise BadInput(f"{path.name} is empty.")
    told = said[1].replace("\\t", "\t") if said else ""
    delimiter = told if told and told in first[0] else max(DELIMITERS, key=first[0].count)
    records = _records(text, delimiter)
    header, fault = next(records, ([], ""))
    if fault:
        raise BadInput(f"The header of {path.name} cannot be read: {fault}.")
    known = {column.lower(): column for column in (*needed, *optional)}
    columns = [known.get(name.strip().lower(), name.strip()) for name in header]
    check_columns(columns, needed, path.name)
    for number, (values, fault) in enumerate(records, start=1):
        values = _fitted(values, columns, known)
        fault = fault and f"The row cannot be read: {fault}."
        if not fault and len(values) != len(columns):
            fault = _wrong_number(len(values), len(columns), delimiter)
        if not fault and any(
            "\udc80" <= character <= "\udcff" for value in values for character in value
        ):
            fault = "The row is not UTF-8: save the table as UTF-8."
        yield TableRow(number, dict(zip(columns, values, strict=False)), fault)


def _fitted(values: list[str], columns: Sequence[str], known: Mapping[str, str]) -> list[str]:
    """Drop extra empty fields, or fill up with empty fields.

    Adds none if a known column would be left empty.
    """
    while len(values) > len(columns) and not values[-1].strip():
        values = values[:-1]
    left_out = columns[len(values) :]
    return (
        values
        if any(column in known.values() for column in left_out)
        else [*values, *("" for _ in left_out)]
    )


def _wrong_number(found: int, wanted: int, delimiter: str) -> str:
    mark = "a tab" if delimiter == "\t" else delimiter
    return f"The row has {found} fields and the header {wanted}: put a text that holds {mark} in quotation marks."


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
    start = 0
    while start < len(text):
        values, place, fault = list[str](), start, ""
        while found := field.match(text, place):
            values.append(found[2] if found[1] is None else found[1].replace('""', '"'))
            place = found.end()
            if found[3] != delimiter:
                break
        else:
            fault = QUOTES
        if any(len(value) > LONGEST for value in values):
            fault = "a field of it is too long"
        if fault:
            values, place = [], next(LINE_END.finditer(text, start)).end()
        if fault or any(values):
            yield values, fault
        start = place


def _read_text(path: Path) -> str:
    """Return the text; non-UTF-8 bytes become surrogates, found later per row."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror or error}.") from None
    if data[:2] in UTF16_MARKS:
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
