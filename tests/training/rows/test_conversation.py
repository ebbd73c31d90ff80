"""The conversation of a run, rendered again from its trace: the very messages that its judge was sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.small_clips import write_clip
from tests.test_judge import ANSWER, CALL
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.branch_plan import Changes, plan_branch
from vrthinker_core.judge import judge, judge_branch
from vrthinker_core.traces import load
from vrthinker_core.training.export import examples, opening_text
from vrthinker_core.training.teaching import NotForTraining
from vrthinker_core.types import Frame, ProtocolName, Settings, Trace, VideoPair
from vrthinker_core.types.messages import Image, Message, Video

EXAMPLES = Path(__file__).resolve().parents[3] / "assets" / "examples"
RECOMMENDED = "<think>t</think><recommend answer>TA=1, VQ=1, MQ=0, OA=1, CF=3</recommend answer>"
CONCAT_ANSWER = "<think>t</think><final answer>TA=1, VQ=1, MQ=0, OA=1</final answer>"


def paired_call(*indices: int) -> str:
    return CALL.partition("[")[0] + f"{list(indices)}}}}}</tool_call>"


def concat_call(*indices: int) -> str:
    return f'{RECOMMENDED}<tool_call>{{"name": "select_frames", "arguments": {{"target_frames": {list(indices)}}}}}</tool_call>'


PAIRED = [paired_call(10, 30), paired_call(20, 40), paired_call(60), ANSWER]
CONCAT = [concat_call(5, 90), concat_call(6, 7, 60), concat_call(999), CONCAT_ANSWER]


def judged(
    folder: Path, replies: Sequence[str], protocol: ProtocolName, settings: Settings
) -> tuple[Trace, list[tuple[Message, ...]]]:
    """A run over two clips of different shapes, and what its judge was sent in each turn."""
    first = write_clip(folder / "first.mp4", frames=40, hue=20)
    second = write_clip(folder / "second.mp4", frames=30, hue=90)
    sent: list[tuple[Message, ...]] = []

    def reply(messages: Sequence[Message]) -> str:
        sent.append(tuple(messages))
        return replies[len(sent) - 1]

    pair = VideoPair("A block <|im_end|> glides.", first, second)
    backend = ScriptedBackend(reply, protocol=protocol)
    list(judge(pair, backend, settings, trace=folder / "trace.json"))
    return load(folder / "trace.json"), sent


def without_pixels(message: Message) -> Message:
    def named(frame: Frame) -> Frame:
        return replace(frame, key="", rgb=b"")

    parts = []
    for part in message.parts:
        shown = replace(part, frame=named(part.frame)) if isinstance(part, Image) else part
        parts.append(Video(tuple(map(named, shown.frames))) if isinstance(shown, Video) else shown)
    return replace(message, parts=tuple(parts))


@pytest.mark.parametrize(
    ("replies", "protocol", "settings"),
    [
        (PAIRED, "paired", Settings()),
        (PAIRED, "paired", Settings(window=1)),
        (PAIRED, "paired", Settings(max_turns=4)),
        (CONCAT, "concat", Settings()),
        (CONCAT, "concat", Settings(window=1, preset="clean", opening="card")),
        (["what?", ANSWER], "paired", Settings()),
    ],
    ids=["paired", "window", "told to answer", "concat", "concat window", "asked again"],
)
def test_every_prompt_is_what_the_judge_was_sent(
    tmp_path: Path, replies: list[str], protocol: ProtocolName, settings: Settings
) -> None:
    trace, sent = judged(tmp_path, replies, protocol, settings)
    found = list(examples(trace))
    taught = 0
    for example in found:
        assert example.messages[-1].role == "assistant"
        for position in example.taught:
            before = list(map(without_pixels, sent[taught]))[: position + 1]
            assert list(example.messages[:position]) == before
            assert example.messages[position].text == trace.turns[taught].reply.text
            taught += 1
    assert taught == len(trace.turns) == len(sent), "each reply is taught once"
    assert (len(found) > 1) is (settings.window == 1 or protocol == "concat")
    assert opening_text(trace) == sent[0][-1].text


def test_the_runs_of_the_built_in_judge_and_of_every_example_are_rendered() -> None:
    traces = [load(path) for path in sorted(EXAMPLES.glob("*/trace.json"))]
    assert len(traces) == 8
    assert sum(trace.started.judge == "nano (built in)" for trace in traces) == 5
    for trace in traces:
        assert sum(len(example.taught) for example in examples(trace)) == len(trace.turns)


def test_a_trace_that_says_something_else_was_sent_is_no_example() -> None:
    trace = load(next(EXAMPLES.glob("think-1*/trace.json")))
    first, *others = trace.turns
    for change in ({"told": "Say 1."}, {"in_view": ()}, {"frames": first.frames[:2]}):
        turns = (replace(first, **change), *others)
        with pytest.raises(NotForTraining):
            list(examples(replace(trace, turns=turns)))


def test_frames_that_a_person_chose_are_no_call_of_the_judge(tmp_path: Path) -> None:
    origin, _ = judged(tmp_path, PAIRED, "paired", Settings())
    pair = VideoPair(origin.started.prompt, tmp_path / "first.mp4", tmp_path / "second.mp4")
    plan = plan_branch(origin, 2, Changes(frames=(4, 9)))
    answerer = ScriptedBackend([ANSWER], protocol="paired")
    list(judge_branch(plan, pair, answerer, trace=tmp_path / "branch.json"))
    with pytest.raises(NotForTraining, match="a person, not the judge, chose the frames of turn 2"):
        list(examples(load(tmp_path / "branch.json")))
