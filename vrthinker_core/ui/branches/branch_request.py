"""What a page's form asks for, as the browser sent it: checked value by value."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vrthinker_core.branch_plan import MAX_FRAMES, Changes
from vrthinker_core.errors import BadInput
from vrthinker_core.protocols.sanitize import MAX_PROMPT
from vrthinker_core.text import encodable
from vrthinker_core.types.settings import setting
from vrthinker_core.ui.branches import branch_words
from vrthinker_core.ui.sessions import settings_form

MAX_DIGITS = 6  # of a frame's number or a turn's


@dataclass(frozen=True, slots=True)
class BranchRequest:
    """A branch that somebody asked for; whether the run that is shown can have it is another question."""

    turn: int
    changes: Changes
    judge: str = ""  # "" for the judge of the run


def read_request(value: Callable[[str], object], judges: Sequence[str]) -> BranchRequest:
    """The form's values by name, None for what was not sent. Raises BadInput."""
    window, judge = setting("window").parse(value("window")), value("judge")
    frames, no_tool, prompt = _frames(value("frames")), value("no_tool") is True, value("prompt")
    changes = Changes(frames, no_tool, window, _prompt(prompt))  # type: ignore[arg-type]
    return BranchRequest(
        _turn(value("turn")), changes, settings_form.parse_judge(judge, judges) if judge else ""
    )


def _turn(value: object) -> int:
    number = _whole(value)
    if number is None:
        raise BadInput(branch_words.BAD_TURN)
    return number


def _frames(value: object) -> tuple[int, ...]:
    if value in (None, ""):
        return ()
    words = (
        value.replace(",", " ").split()
        if isinstance(value, str) and len(value) <= MAX_FRAMES * (MAX_DIGITS + 2)
        else [""]
    )
    numbers = [_whole(word) for word in words]
    if None in numbers:
        raise BadInput(branch_words.BAD_FRAMES)
    return tuple(number for number in numbers if number is not None)


def _whole(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) < 10**MAX_DIGITS else None
    text = value if isinstance(value, str) else ""
    return (
        int(text) if 0 < len(text) <= MAX_DIGITS and text.isascii() and text.isdecimal() else None
    )


def _prompt(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    if len(value) > MAX_PROMPT:
        raise BadInput(branch_words.LONG_PROMPT.format(MAX_PROMPT))
    return encodable(value)
