"""The README's table of measurements. What the benchmarks found is stored nowhere else: running one replaces its row."""

from __future__ import annotations

from dataclasses import dataclass

START, END = "<!-- benchmarks -->\n", "<!-- /benchmarks -->"
HEADER = "| command | what it compares | what it found | on |\n|---|---|---|---|\n"


@dataclass(frozen=True)
class Row:
    """One command and what it found."""

    command: str
    compares: str
    found: str
    machine: str

    def __str__(self) -> str:
        return f"| `{self.command}` | {self.compares} | {self.found} | {self.machine} |\n"

    @classmethod
    def parse(cls, line: str) -> Row:
        """Read a line of the table back. Raises ValueError for a line that is none."""
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 4:
            raise ValueError(f"not a row of four cells: {line!r}")
        return cls(cells[0].strip("`"), *cells[1:])


def read_rows(readme: str) -> list[Row]:
    """All rows of the table in a README's text. Raises ValueError where there is no such table."""
    _, _, rest = readme.partition(START)
    table, end, _ = rest.partition(END)
    if not end or not table.startswith(HEADER):
        raise ValueError(
            f"The README has no table of measurements between {START.strip()} and {END}."
        )
    return [Row.parse(line) for line in table.removeprefix(HEADER).splitlines()]


def replace_row(readme: str, row: Row) -> str:
    """The README's text with `row` in place of the same command's, or at the end."""
    if Row.parse(str(row)) != row:
        raise ValueError(f"a cell holds what ends a cell or a row: {row}")
    rows = read_rows(readme)
    commands = [each.command for each in rows]
    if row.command in commands:
        rows[commands.index(row.command)] = row
    else:
        rows.append(row)
    before, _, rest = readme.partition(START)
    return before + START + HEADER + "".join(map(str, rows)) + END + rest.partition(END)[2]
