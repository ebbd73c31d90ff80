"""Numbers in words, and text that files, terminals and browsers accept."""

import base64
import hashlib
import math
import re
from decimal import ROUND_HALF_UP, Decimal

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


def shortened(text: str, most: int) -> str:
    """Return at most `most` characters, the last one an ellipsis if the text is longer."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


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


NUMBERS, ORDINALS = map(
    str.split,
    (
        "no one two three four five six seven eight nine ten eleven twelve",
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth",
    ),
)
"""The words from 0, and from the first."""

DASH = "–"  # For an unknown number


def count(number: int, noun: str) -> str:
    """Return `1 frame` or `2 frames`."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def or_dash(number: float | None, form: str = "") -> str:
    """Format a number; return `–` if unknown."""
    return DASH if number is None else format(number, form)


def share(value: float | None, digits: int = 1) -> str:
    """Format a share of 1, as in `72.7 %`."""
    return DASH if value is None else f"{100 * value:.{digits}f} %"


def points(value: float | None) -> str:
    """Format a difference of shares, as in `+4.2`."""
    return DASH if value is None else f"{100 * value:+z.1f}"


def percent(share: float) -> str:
    """Format a probability as `93 %`. None is 0 or 1, so `<1 %` and `>99 %` end the scale."""
    if share < 0.005:
        return "<1 %"
    return ">99 %" if share >= 0.995 else f"{100 * share:.0f} %"


def p_value(p: float) -> str:
    """Format a p-value, as in `0.031`."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def dollars(amount: float) -> str:
    """Return `$0.012` or `$1.20`: two digits, and whole cents from $1 up."""
    if 0 < amount < 0.0001:
        return "less than $0.0001"
    digits = 2 if amount >= 1 or amount == 0 else 1 - math.floor(math.log10(amount))
    return f"${amount:.{digits}f}"


def frame_time(seconds: float) -> str:
    """Format a timestamp as `0.13 s`. Half a hundredth is rounded up, as in the scripts."""
    return f"{Decimal(seconds).quantize(Decimal('0.01'), ROUND_HALF_UP)} s"


def duration(seconds: float, *, whole: bool = False) -> str:
    """Return `0.4 s` (with `whole`: `0 s`) or `2 min 5 s`."""
    if seconds < 10 and not whole:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def ended_after(turns: int, seconds: float) -> str:
    """Return `after 3 turns in 12 s`."""
    if not turns:
        return "before the first turn"
    return f"after {count(turns, 'turn')} in {duration(seconds)}"


def speed(tokens_a_second: float) -> str:
    """Return `46 tokens a second` or `0.4 tokens a second`."""
    return f"{tokens_a_second:.{0 if tokens_a_second >= 10 else 1}f} tokens a second"


def rate_parts(rate: float, left: float) -> list[str]:
    """Return the rate (per second or seconds each) and time left (`2 h 20 min`)."""
    minutes, seconds = divmod(round(left), 60)
    hours, minutes = divmod(minutes, 60)
    time_left = f"{minutes} min" if minutes else f"{seconds} s"
    if hours:
        time_left = f"{hours:,} h {minutes} min"
    each = f"{rate:.1f} a second" if rate >= 1 else f"{1 / rate:.1f} s each"
    return [each, f"{time_left} left"]


def reading(shares: tuple[float, float]) -> str:
    """Return the progress of unfinished videos: `Reading video 1 · 43 %`."""
    sides = enumerate(shares, start=1)
    left = [f"video {side} · {int(share * 100)} %" for side, share in sides if share < 1]
    return f"Reading {', '.join(left) or 'the videos'}"
