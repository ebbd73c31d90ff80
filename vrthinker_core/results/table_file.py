"""Rows of a CSV file; an unreadable row spoils no other row."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.results.layout import TableRow, check_columns
from vrthinker_core.storage import os_errors

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
    """Drop extra empty fields, or fill up with empty fields.

    Adds none if a known column would be left empty.
    """
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
