"""The rows of a CSV file, however it was saved: a row that cannot be read costs that row alone."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.results.datasets.layout import TableRow, check_columns

DELIMITERS = ",;\t"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
QUOTES = "its quotation marks do not pair up: put the text in a pair of them and double those within it"


def read_table(path: Path, needed: Sequence[str], optional: Sequence[str] = ()) -> Iterator[TableRow]:
    """The rows under the header line. Columns are known by their names whatever the case, and are separated by `,`, `;` or tabs.

    Raises BadInput for a file that cannot be read, or whose header lacks one of the needed columns.
    """
    lines = list(io.StringIO(_read_text(path), newline=""))
    start = next((number for number, line in enumerate(lines) if line.strip()), None)
    if start is None:
        raise BadInput(f"{path.name} is empty.")
    delimiter = max(DELIMITERS, key=lines[start].count)
    try:
        header = next(csv.reader([lines[start]], delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise BadInput(f"The header of {path.name} cannot be read: {error}.") from None
    known = {column.lower(): column for column in (*needed, *optional)}
    columns = [known.get(name.strip().lower(), name.strip()) for name in header]
    check_columns(columns, needed, path.name)
    for number, (values, fault) in enumerate(_records(lines[start + 1 :], delimiter), start=1):
        values = _fitted(values, columns, known)
        if not fault and len(values) != len(columns):
            fault = _wrong_number(len(values), len(columns), delimiter)
        if not fault and any("\udc80" <= character <= "\udcff" for value in values for character in value):
            fault = "The row is not UTF-8: save the table as UTF-8."
        yield TableRow(number, dict(zip(columns, values, strict=False)), fault)


def _fitted(values: list[str], columns: Sequence[str], known: Mapping[str, str]) -> list[str]:
    """The fields without empty ones behind the last column, and with empty ones where no column that counts has been left out."""
    while len(values) > len(columns) and not values[-1].strip():
        values = values[:-1]
    left_out = columns[len(values) :]
    return values if any(column in known.values() for column in left_out) else [*values, *("" for _ in left_out)]


def _wrong_number(found: int, wanted: int, delimiter: str) -> str:
    mark = "a tab" if delimiter == "\t" else delimiter
    return f"The row has {found} fields and the header {wanted}: put a text that holds {mark} in quotation marks."


def _records(lines: Sequence[str], delimiter: str) -> Iterator[tuple[list[str], str]]:
    """The records, each with what is wrong with it. After a line that begins none, the next line is tried."""
    start = 0
    while start < len(lines):
        reader = csv.reader(lines[start:], delimiter=delimiter, strict=True)
        while True:
            before = reader.line_num
            try:
                record = next(reader, None)
            except csv.Error as error:
                yield [], f"The row cannot be read: {QUOTES if 'limit' not in str(error) else 'a field of it is too long'}."
                start += before + 1
                break
            if record is None:
                return
            if any(record):
                yield record, ""


def _read_text(path: Path) -> str:
    """The text; a byte that is no UTF-8 is kept as a half character, to be found in its row."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror or error}.") from None
    if data[:2] in UTF16_MARKS:
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
