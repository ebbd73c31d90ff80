"""Branches: a run that begins with another run's first turns, and goes on from there with something changed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest

from tests.support.decoders import halting_decoders
from tests.test_judge import ANSWER, CALL
from vrthinker_core import branch_plan
from vrthinker_core.backends import ScriptedBackend, open_backend
from vrthinker_core.branch_plan import Changes, plan_branch
from vrthinker_core.errors import BadInput
from vrthinker_core.runner import judge, judge_branch
from vrthinker_core.traces import from_json, load, to_json
from vrthinker_core.types import Settings, StopReason, Trace, Turn, VideoPair
from vrthinker_core.types.events import Event, Started, add_event
from vrthinker_core.types.messages import Completion, Message
from vrthinker_core.types.wording import branch_name

NOTHING = Changes()
EXAMPLES = Path(__file__).resolve().parents[1] / "assets" / "examples"


class Talker:
    """A judge whose reply depends on all that it is shown, and that keeps every request."""

    def __init__(self) -> None:
        self.asked: list[tuple[Message, ...]] = []

    def __call__(self, messages: Sequence[Message]) -> str:
        self.asked.append(tuple(messages))
        seen = sorted({frame.ref.slot for message in messages for frame in message.frames})
        reply = (CALL, CALL.replace("10, 30", "60, 90"), ANSWER)[min(len(messages) // 2 - 1, 2)]
        reply = ANSWER if "last turn" in messages[-1].text else reply
        return reply.replace("<Think>t", f"<Think>{len(messages)} messages, slots {seen}")


def trace_of(events: Iterator[Event]) -> Trace:
    return reduce(add_event, events, None)


def run(pair: VideoPair, settings: Settings = Settings()) -> Trace:
    return trace_of(judge(pair, ScriptedBackend(Talker()), settings))


def branch(
    origin: Trace, pair: VideoPair, turn: int, changes: Changes = NOTHING, **script: Talker
) -> Trace:
    plan = plan_branch(origin, turn, changes)
    judge = ScriptedBackend(script.get("talker") or Talker())
    return trace_of(judge_branch(plan, replace(pair, prompt=plan.prompt), judge))


def content(turn: Turn) -> Turn:
    """A turn without what its computation took."""
    told = turn.completion
    return replace(turn, completion=Completion(told.text, told.stop, tokens=told.tokens))


def slots(turn: Turn) -> list[int]:
    return sorted({frame.ref.slot for frame in turn.frames})


@pytest.mark.parametrize(
    "settings",
    [Settings(), Settings(window=0), Settings(window=1, max_turns=3), Settings(protocol="concat")],
)
def test_with_nothing_changed_a_branch_is_its_origin(pair: VideoPair, settings: Settings) -> None:
    whole = Talker()
    origin = trace_of(judge(pair, ScriptedBackend(whole), settings))
    assert len(origin.turns) == 3
    for turn in (1, 2, 3):
        other = branch(origin, pair, turn, talker=(talker := Talker()))
        assert talker.asked == whole.asked[turn - 1 :], "the rest is not generated again"
        assert [content(each) for each in other.turns] == [content(each) for each in origin.turns]
        assert other.turns[: turn - 1] == origin.turns[: turn - 1], "taken over as they were"
        assert replace(other.finished, seconds=0) == replace(origin.finished, seconds=0)  # type: ignore[type-var]
        assert replace(other.started, branch=None) == origin.started


def test_the_built_in_judge_goes_on_as_it_did() -> None:
    """Its KV cache holds the taken-over turns after one prefill, and the reply that follows is the same, token by token."""
    folder = EXAMPLES / "think-1-what-four-frames-do-not-show"
    origin = load(folder / "trace.json")
    plan = plan_branch(origin, len(origin.turns))
    assert len(plan.turns) >= 1
    pair = VideoPair(plan.prompt, folder / "first.mp4", folder / "second.mp4")
    other = trace_of(judge_branch(plan, pair, open_backend("nano")))
    assert [content(turn) for turn in other.turns] == [content(turn) for turn in origin.turns]
    assert other.turns[-1].completion.reused_tokens == 0, "all of the history is new to it"


def test_other_frames_are_given_as_if_the_call_had_asked_for_them(pair: VideoPair) -> None:
    origin, talker = run(pair), Talker()
    other = branch(origin, pair, 2, Changes(frames=[4, 9]), talker=talker)  # type: ignore[arg-type] # a list
    assert slots(other.turns[1]) == [4, 9]
    assert other.turns[0] == origin.turns[0], "the record keeps what the judge wrote"
    history = talker.asked[0][2].text
    assert "[4, 9]" in history
    assert "[10, 30]" not in history
    assert branch_name(other.started) == "from turn 2, with frames 4, 9"


def test_a_judge_that_has_answered_can_be_given_more_frames(pair: VideoPair) -> None:
    origin, talker = run(pair, Settings(max_turns=5)), Talker()
    other = branch(origin, pair, 4, Changes(frames=(4,)), talker=talker)
    assert slots(other.turns[3]) == [4]
    assert "<Answer>" not in talker.asked[0][-2].text
    with pytest.raises(BadInput, match="turn 4 is to show"):
        plan_branch(origin, 4)


def test_without_the_tool_the_answer_is_asked_for_now(pair: VideoPair) -> None:
    origin = run(pair)
    other = branch(origin, pair, 2, Changes(no_tool=True))
    assert [turn.forced for turn in other.turns] == [False, True]
    assert (other.finished.stop, other.finished.forced) == (StopReason.ANSWERED, True)
    assert branch_name(other.started) == "without the tool from turn 2"


def test_another_memory_window_counts_from_the_branch_on(pair: VideoPair) -> None:
    origin = run(pair)
    other = branch(origin, pair, 3, Changes(window=1))
    assert other.turns[:2] == origin.turns[:2]
    assert {10, 60} <= {ref.slot for ref in origin.turns[2].in_view}
    seen = {ref.slot for ref in other.turns[2].in_view}
    assert 60 in seen
    assert 10 not in seen
    assert branch_name(other.started) == "from turn 3, memory window 1"


@pytest.mark.parametrize("protocol", ["paired", "concat"])
def test_another_judge_from_turn_1_is_a_plain_run(pair: VideoPair, protocol: str) -> None:
    origin = run(pair, Settings(window=2))
    other_judge = ScriptedBackend(Talker(), protocol=protocol, name="another")  # type: ignore[arg-type]
    plan = plan_branch(origin, 1)
    other = trace_of(judge_branch(plan, pair, other_judge))
    plain = trace_of(judge(pair, other_judge, Settings(window=2)))
    assert [content(turn) for turn in other.turns] == [content(turn) for turn in plain.turns]
    assert replace(other.started, branch=None) == plain.started
    assert branch_name(other.started) == "judge another"


def test_what_can_only_begin_at_turn_1_says_so(pair: VideoPair) -> None:
    origin = run(pair)
    named = branch(origin, pair, 1, Changes(prompt="A cat.")).started
    assert branch_name(named) == "another prompt"
    with pytest.raises(BadInput, match=branch_plan.PROMPT_FROM_1[:40]):
        plan_branch(origin, 2, Changes(prompt="A cat."))
    plan, concat = plan_branch(origin, 2), ScriptedBackend([ANSWER], protocol="concat")
    for videos, backend, sentence in (
        (pair, concat, branch_plan.JUDGE_FROM_1),
        (pair.swapped(), ScriptedBackend([ANSWER]), branch_plan.OTHER_VIDEOS),
    ):
        refused = trace_of(judge_branch(plan, videos, backend))
        assert (refused.finished and refused.finished.error, refused.turns) == (sentence, ())


REFUSED = [
    *((turn, NOTHING) for turn in (0, 9)),
    (1, Changes(frames=(4,))),
    *((2, Changes(frames=frames)) for frames in ((128,), (4, 4), (-1,), tuple(range(13)))),
    *((2, Changes(frames=frames)) for frames in ((10**400,), (16, 48))),
    (2, Changes(window=-1)),
    (3, Changes(frames=(10,))),
]


@pytest.mark.parametrize(("turn", "changes"), REFUSED)
def test_what_cannot_be_is_refused(pair: VideoPair, turn: int, changes: Changes) -> None:
    with pytest.raises(BadInput, match=r"^[A-Z].*\.$"):
        plan_branch(run(pair), turn, changes)


def test_frames_that_have_left_the_view_can_be_shown_again(pair: VideoPair) -> None:
    origin = run(pair)
    assert slots(branch(origin, pair, 3, Changes(frames=(10,), window=0)).turns[2]) == [10]
    assert slots(branch(origin, pair, 2, Changes(frames=(16, 4))).turns[1]) == [4], "one is new"


def test_a_turn_that_was_cut_short_is_not_taken_over(pair: VideoPair) -> None:
    origin = run(pair)
    cut = replace(origin.turns[1], completion=replace(origin.turns[1].completion, stop="cancelled"))
    stopped = replace(origin, turns=(origin.turns[0], cut))
    assert len(branch(stopped, pair, 2).turns) == 3
    with pytest.raises(BadInput, match="Turn 2 was cut short"):
        plan_branch(stopped, 3, Changes(frames=(4,)))


def test_a_branch_of_a_branch_and_its_trace_read_back(pair: VideoPair, tmp_path: Path) -> None:
    first = branch(run(pair), pair, 2, Changes(frames=(4, 9)))
    plan = plan_branch(first, 3, Changes(no_tool=True))
    path = tmp_path / "trace.json"
    events = list(judge_branch(plan, pair, ScriptedBackend(Talker()), trace=path))
    second = load(path)
    assert list(second.events()) == events, "those of the taken-over turns too"
    assert second.started.branch.origin.name == "from turn 2, with frames 4, 9"
    assert from_json(to_json(second)) == second


def test_a_branch_that_is_stopped_while_it_takes_turns_over_is_cancelled(pair: VideoPair) -> None:
    plan = plan_branch(run(pair), 3)
    stopped, halted, events = threading.Event(), [], []
    with halting_decoders() as halt:
        talker = ScriptedBackend(Talker())
        for event in judge_branch(plan, pair, talker, cancelled=stopped.is_set):
            events.append(event)
            if isinstance(event, Started):
                halted += halt()
                stopped.set()
    end = events[-1]
    assert halted
    assert (end.stop, end.error) == (StopReason.CANCELLED, "")
