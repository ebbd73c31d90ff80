"""Text that every file, terminal and browser takes, and how a page's policy names a text inside it."""

import base64
import hashlib
import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # C0, DEL and C1


def encodable(text: str) -> str:
    """Text that can be written as UTF-8: half characters, as a stray byte on a command line leaves them, become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def filled_lines(text: str) -> dict[int, str]:
    """The lines that hold anything, by their numbers from 1.

    A line feed alone ends a line, since the text in a line of JSON may hold every other line end.
    """
    lines = enumerate(text.removeprefix("\ufeff").split("\n"), start=1)
    return {number: line for number, line in lines if line.strip()}


def printable(text: str) -> str:
    """Text that a terminal shows and does not obey: control characters other than line feeds and tabs become visible."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", encodable(text))


def policy_hash(text: str) -> str:
    """The source that a Content Security Policy names an inline script or style by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
