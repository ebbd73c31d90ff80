"""Text that files, terminals and browsers accept, and CSP hashes."""

import base64
import hashlib
import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # C0, DEL and C1


def encodable(text: str) -> str:
    """Replace lone surrogates, which stray bytes leave, by question marks for UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def filled_lines(text: str) -> dict[int, str]:
    """Return the non-blank lines, by line number from 1.

    Only a line feed ends a line: the text in a line of JSON may hold every other line end.
    """
    lines = enumerate(text.removeprefix("\ufeff").split("\n"), start=1)
    return {number: line for number, line in lines if line.strip()}


def printable(text: str) -> str:
    """Make all control characters visible that a terminal would obey."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", encodable(text))


def one_line(text: str, most: int) -> str:
    """Return the text in one line of at most `most` characters, all printable."""
    line = encodable(text[: 2 * most])
    if not line.isprintable():
        line = "".join(each if each.isprintable() else " " for each in line)
    line = " ".join(line.split())
    return line if len(line) <= most and len(text) <= 2 * most else f"{line[: most - 1].rstrip()}…"


def policy_hash(text: str) -> str:
    """Return the Content Security Policy source of an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
