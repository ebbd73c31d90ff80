"""Plans of branches: turns taken over, and changes, checked before a run."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import PromptProtocol, make_protocol, with_defaults
from vrthinker_core.types import ClipInfo, FrameRef, ProtocolName, Run, Settings, Side, Turn
from vrthinker_core.types.events import Branch, Origin
from vrthinker_core.types.wording import branch_name
from vrthinker_core.words import count

MAX_FRAMES = 64  # Frame numbers that are checked; no protocol takes more in one call

PROMPT_FROM_1 = "Another prompt can only begin at turn 1: the turns before were about the old one."
JUDGE_FROM_1 = (
    "A judge of another protocol can only begin at turn 1: it cannot read the turns before."
)
OTHER_VIDEOS = (
    "These are not the videos which that run compared: give the same two files, in the same order."
)


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a branch, besides its judge; by default none.

    In the branch's first turn the judge is shown `frames`, in the protocol's numbers, and `no_tool`
    asks it for the answer. `window` is the memory window from there on. None keeps the origin's.
    """

    frames: tuple[int, ...] = ()
    no_tool: bool = False
    window: int | Literal["all"] | None = None
    prompt: str | None = None


@dataclass(frozen=True, slots=True)
class BranchPlan:
    """The plan that `judge_branch` follows, made by `plan_branch`.

    The branch repeats the origin's turns before its own first one. `settings` are for the turns
    after them.
    """

    branch: Branch
    origin: Run
    settings: Settings
    prompt: str

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The origin's turns that are taken over."""
        return self.origin.turns[: self.branch.turn - 1]

    def settings_for(self, protocols: Sequence[ProtocolName]) -> Settings:
        """Return the settings for a judge, with its protocol's own values."""
        old, dialect = self.settings, self.origin.started.dialect
        if not protocols or dialect in protocols:
            return old
        usual = make_protocol(Settings(), cast(ProtocolName, dialect))
        own = with_defaults(Settings(), usual)
        names = ("window", "max_turns", "frames_per_call")
        kept: dict[str, Any] = {
            name: None if getattr(old, name) == getattr(own, name) else getattr(old, name)
            for name in names
        }
        if self.branch.no_tool:
            kept["max_turns"] = old.max_turns
        return replace(old, **kept, protocol="auto")

    def refusal(
        self, prompt: str, protocol: str, clips: tuple[ClipInfo | None, ClipInfo | None]
    ) -> BadInput | None:
        """Return why prompt, protocol or videos cannot continue the origin, or None."""
        started = self.origin.started
        if self.branch.turn > 1 and prompt.strip() != started.prompt.strip():
            return BadInput(PROMPT_FROM_1)
        if self.branch.turn > 1 and protocol != started.dialect:
            return BadInput(JUDGE_FROM_1)
        given, origin = ([clip and clip.digest for clip in pair] for pair in (clips, started.clips))
        return BadInput(OTHER_VIDEOS) if None not in clips and given != origin else None


def plan_branch(origin: Run, turn: int, changes: Changes = Changes()) -> BranchPlan:
    """Plan a branch of `origin` whose first own turn is `turn`, 1-based.

    The turns before are taken over. Raises `BadInput` if the turn or the changes do not fit the
    run.
    """
    started = origin.started
    if started.dialect not in get_args(ProtocolName) or None in started.clips:
        raise BadInput(
            "That run never opened both videos, so it cannot be continued: compare them anew."
        )
    protocol = make_protocol(started.settings, cast(ProtocolName, started.dialect))
    _check_turn(origin, turn, changes)
    frames, settings = tuple(changes.frames), replace(started.settings, swap="off")
    if changes.window is not None:
        settings = replace(settings, window=changes.window)
    if frames:
        _check_frames(frames, protocol)
        if frames_in_view(origin.turns[: turn - 1], settings.window).issuperset(
            protocol.frame_refs(frames)
        ):
            raise BadInput(
                f"In turn {turn} the judge sees {'frame' if len(frames) == 1 else 'frames'} "
                f"{', '.join(map(str, frames))} already: choose at least one other frame."
            )
    if changes.no_tool:
        settings = replace(settings, max_turns=turn)
    facts = Origin(started.prompt, started.judge, started.settings, branch_name(started))
    branch = Branch(facts, turn, frames, changes.no_tool)
    prompt = started.prompt if changes.prompt is None else changes.prompt
    plan = BranchPlan(branch, origin, settings, prompt)
    if refusal := plan.refusal(prompt, started.dialect, started.clips):
        raise refusal
    return plan


def _check_turn(origin: Run, turn: int, changes: Changes) -> None:
    turns = len(origin.turns)
    if not 1 <= turn <= turns + 1:
        raise BadInput(
            f"That run has {count(turns, 'turn')}: begin the branch at a turn from 1 to {turns + 1}."
        )
    for taken in origin.turns[: turn - 1]:
        if taken.completion.stop in ("cancelled", "failed"):
            raise BadInput(f"Turn {taken.number} was cut short: begin the branch there or earlier.")
    if changes.frames and turn == 1:
        raise BadInput(
            "Turn 1 shows the protocol's first frames: choose other frames from turn 2 on."
        )
    if turn > max(turns, 1) and not changes.frames:
        raise BadInput(
            f"The run ended with turn {turns}: choose the frames that turn {turn} is to show, or "
            "begin at an earlier turn."
        )


def _check_frames(frames: tuple[int, ...], protocol: PromptProtocol) -> None:
    """Raise `BadInput` unless the protocol reads a call for these frames unchanged."""
    wanted = protocol.parse(protocol.call(frames)).wants if len(frames) <= MAX_FRAMES else None
    if wanted is None or wanted.truncated or wanted.dropped or wanted.indices != frames:
        first = protocol.frame_number(FrameRef(0, Side.FIRST))
        last = protocol.frame_number(FrameRef(protocol.grid.slots - 1, Side.SECOND))
        raise BadInput(
            f"Choose 1 to {protocol.frames_per_call} frames, each once, of the numbers {first} to "
            f"{last}."
        )


def frames_in_view(taken: Sequence[Turn], window: int | str | None) -> set[FrameRef]:
    """Return the frames that the judge sees after these turns, with that memory window."""
    kept = [turn.frames for turn in taken[1:] if turn.frames]
    if isinstance(window, int):
        kept = kept[max(0, len(kept) - window) :]
    shown = {frame.ref for frames in (taken[0].frames, *kept) for frame in frames}
    return shown.intersection(taken[-1].in_view)
