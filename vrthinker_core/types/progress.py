"""Progress, speed and totals of a run, worded for page and terminal."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from vrthinker_core.types.events import Event, FramesShown, Started, Swapped, Turn

ORDINALS = (
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
)
NUMBERS = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


@dataclass(frozen=True, slots=True)
class Pace:
    """The times of a live run, in seconds since its beginning."""

    turns: tuple[float, ...] = ()  # Start of each turn
    taken: int = 0  # Turns taken over by a branch: too fast to predict later ones

    def after(self, event: Event, seconds: float) -> "Pace":
        """Return the pace after an event; a second run has its own."""
        if isinstance(event, Swapped):
            return self.after(event.event, seconds)
        if isinstance(event, Started):
            return Pace(taken=event.branch.turn - 1 if event.branch else 0)
        if isinstance(event, FramesShown):
            turns = self.turns if event.note else (*self.turns, seconds)
            return Pace(turns, taken=self.taken)
        return self

    def seconds_left(self, seconds: float, turns: int | None) -> float | None:
        """Estimate the seconds left if the run takes all its `turns`.

        Each turn is taken to last as long as the average of the turns that have ended. Returns None
        in the first turn, and if `turns` is None.
        """
        ended = len(self.turns) - 1 - self.taken
        if ended < 1 or turns is None:
            return None
        each = (self.turns[-1] - self.turns[self.taken]) / ended
        later = max(0, turns - len(self.turns))
        return each * later + max(0.0, each - (seconds - self.turns[-1]))


def count(number: int, noun: str) -> str:
    """Return `1 frame` or `2 frames`."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def duration(seconds: float, *, whole: bool = False) -> str:
    """Return `0.4 s` (with `whole`: `0 s`) or `2 min 5 s`."""
    if seconds < 10 and not whole:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def speed(tokens_a_second: float) -> str:
    """Return `46 tokens a second` or `0.4 tokens a second`."""
    return f"{tokens_a_second:.{0 if tokens_a_second >= 10 else 1}f} tokens a second"


def reading(shares: tuple[float, float]) -> str:
    """Return the progress of unfinished videos: `Reading video 1 · 43 %`."""
    sides = enumerate(shares, start=1)
    left = [f"video {side} · {int(share * 100)} %" for side, share in sides if share < 1]
    return f"Reading {', '.join(left) or 'the videos'}"


def ended_after(turns: int, seconds: float) -> str:
    """Return `after 3 turns in 12 s`."""
    if not turns:
        return "before the first turn"
    return f"after {count(turns, 'turn')} in {duration(seconds)}"


def turn_figures(turn: Turn) -> str:
    """Return tokens and time of a turn; unknown figures are left out."""
    completion = turn.completion
    parts = []
    if completion.prompt_tokens is not None:
        reused = f" ({completion.reused_tokens:,} reused)" if completion.reused_tokens else ""
        parts.append(f"{completion.prompt_tokens:,} in{reused}")
    if completion.new_tokens is not None:
        parts.append(f"{completion.new_tokens:,} out")
    if completion.seconds:
        parts.append(duration(completion.seconds))
    if completion.seconds and completion.new_tokens:
        parts.append(speed(completion.new_tokens / completion.seconds))
    return " · ".join(parts)


def dollars(amount: float) -> str:
    """Return `$0.012` or `$1.20`: two digits, and whole cents from $1 up."""
    if 0 < amount < 0.0001:
        return "less than $0.0001"
    digits = 2 if amount >= 1 or amount == 0 else 1 - math.floor(math.log10(amount))
    return f"${amount:.{digits}f}"


def totals(turns: Iterable[Turn], tokens: bool = True) -> str:
    """Return frames, tokens and dollars of all turns, as far as known."""
    turns = tuple(turns)
    done = [turn.completion for turn in turns]
    frames = sum(len(turn.frames) for turn in turns)
    read = sum((each.prompt_tokens or 0) - (each.reused_tokens or 0) for each in done)
    written = sum(each.new_tokens or 0 for each in done)
    costs = [each.cost for each in done if each.cost is not None]
    shown = [count(frames, "frame")] if frames else []
    if read > 0 and tokens:
        shown.append(f"{count(read, 'token')} read{f', {written:,} written' if written else ''}")
    elif written and tokens:
        shown.append(f"{count(written, 'token')} written")
    if costs:
        shown.append(f"about {dollars(sum(costs))}")
    return " · ".join(shown)


def place_in_queue(before: int) -> str:
    """Return `You are third; two comparisons are before yours.`; "" for first."""
    if before <= 0:
        return ""
    if before >= len(ORDINALS):
        return f"You are number {before + 1}; {before} comparisons are before yours."
    return (
        f"You are {ORDINALS[before]}; {NUMBERS[before]} "
        f"comparison{' is' if before == 1 else 's are'} before yours."
    )
