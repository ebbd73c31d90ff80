"""Both orders: the pair is judged again with its sides swapped, and nothing of the first run is lost by it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path

import pytest

from tests.support.small_clips import write_clip
from tests.test_cli import LABELS, Clips, compare, run as run_command
from tests.test_judge import ANSWER, CALL
from tests.test_traces import changed
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.errors import BackendFailed, TraceError
from vrthinker_core.runner import judge
from vrthinker_core.traces import from_json, load
from vrthinker_core.types import Settings, Side, StopReason, VideoPair
from vrthinker_core.types.events import Event, Finished, Swapped, TextArrived, TurnEnded
from vrthinker_core.types.messages import Message
from vrthinker_core.types.order import check_order

BOTH = Settings(swap="on")


def longer_first(messages: Sequence[Message]) -> str:
    """A judge that looks once more, then prefers the video whose frames are named first in the pair `wide`."""
    if len(messages) == 2:
        return CALL
    first = next(frame for frame in messages[1].frames if frame.ref.side is Side.FIRST)
    return ANSWER.replace("TA=1", "TA=1" if first.rgb[0] < first.rgb[2] else "TA=2")


def parts(events: Iterator[Event]) -> tuple[list[Event], list[Event]]:
    """The events of the first run, and those of the second as it had them."""
    both = list(events)
    second = [event.event for event in both if isinstance(event, Swapped)]
    first = both[: len(both) - len(second)]
    assert both == [*first, *map(Swapped, second)], "the second run comes after the first"
    return first, second


def timeless(event: Event) -> Event:
    if isinstance(event, Swapped):
        return Swapped(timeless(event.event))  # type: ignore[arg-type]
    if isinstance(event, TurnEnded):
        completion = replace(event.turn.completion, seconds=0)
        return replace(event, turn=replace(event.turn, completion=completion))
    return replace(event, seconds=0) if isinstance(event, Finished) else event


@pytest.mark.parametrize("protocol", ["paired", "concat"])
def test_the_second_run_is_that_of_the_swapped_pair(pair: VideoPair, protocol: str) -> None:
    """And the first run is as if there were none."""

    def run(pair: VideoPair, swap: str = "off") -> Iterator[Event]:
        settings = Settings(protocol=protocol, swap=swap)  # type: ignore[arg-type]
        return map(timeless, judge(pair, ScriptedBackend([CALL, ANSWER]), settings))

    first, second = parts(run(pair, "on"))
    assert first[1:] == list(run(pair))[1:]
    assert second == list(run(pair.swapped()))


def test_a_run_without_a_verdict_is_not_judged_again(pair: VideoPair) -> None:
    first, second = parts(judge(pair, ScriptedBackend([CALL]), replace(BOTH, max_turns=1)))
    assert isinstance(first[-1], Finished)
    assert second == []


def test_a_judge_of_names_flips_and_one_of_pictures_is_stable(pair: VideoPair) -> None:
    for script, words in (([ANSWER], "flips"), (longer_first, "stable")):
        first, second = parts(judge(pair, ScriptedBackend(script), BOTH))  # type: ignore[arg-type]
        check = check_order(first[-1], second[-1])  # type: ignore[arg-type]
        assert check.effects["TA"] == words
        assert check.effects["MQ"] == "stable", "a tie both times"


def test_no_video_is_opened_twice(tmp_path: Path) -> None:
    """The files are gone by the time the second run begins."""
    clips = write_clip(tmp_path / "one.mp4"), write_clip(tmp_path / "two.mp4", hue=60)
    pair = VideoPair("A block glides.", *clips)
    for event in judge(pair, ScriptedBackend([CALL, ANSWER]), BOTH):
        for path in clips if isinstance(event, Finished) else ():
            path.unlink()
    assert event.event.stop is StopReason.ANSWERED


def test_a_failing_second_run_leaves_the_first_verdict(pair: VideoPair, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    replies = chain([CALL, ANSWER], repeat(BackendFailed("The judge's connection broke.")))
    backend = ScriptedBackend(lambda _: next(replies))
    first, second = parts(judge(pair, backend, BOTH, trace=path))
    assert first[-1].verdict is not None
    assert second[-1].stop is StopReason.FAILED
    assert second[-1].error == "The judge's connection broke."
    trace = load(path)
    assert trace.finished == first[-1]
    assert check_order(trace.finished, trace.swapped.finished) is None
    shown, only_labels = run_command("replay", path), run_command("replay", path, "--json")
    assert (shown.returncode, only_labels.returncode) == (0, 0)
    assert shown.stdout.endswith("Order not checked: The judge's connection broke.\n")
    assert only_labels.stderr == "Order not checked: The judge's connection broke.\n"
    assert json.loads(only_labels.stdout) == {**LABELS, "swapped": None, "order": None}


def test_closing_in_the_second_run_keeps_the_first(pair: VideoPair, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    events = judge(pair, ScriptedBackend([CALL, ANSWER]), BOTH, trace=path)
    while not (isinstance(event := next(events), Swapped) and isinstance(event.event, TextArrived)):
        pass
    events.close()  # type: ignore[attr-defined]
    trace = load(path)
    assert trace.finished.stop is StopReason.ANSWERED
    assert trace.swapped.finished.stop is StopReason.CANCELLED


def test_a_stop_in_the_second_run_is_no_verdict_of_it(pair: VideoPair) -> None:
    events, script = list[Event](), ScriptedBackend([CALL, ANSWER])

    def stopped() -> bool:
        return isinstance(events[-1], Swapped) if events else False

    for event in judge(pair, script, BOTH, cancelled=stopped):
        events.append(event)
    first, second = parts(iter(events))
    assert [first[-1].stop, second[-1].stop] == [StopReason.ANSWERED, StopReason.CANCELLED]
    assert second[-1].verdict is None


@pytest.fixture(scope="module")
def stored(clips: Clips, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "run.json"
    pair = VideoPair("A block glides.", *clips)
    live = list(judge(pair, ScriptedBackend([CALL, ANSWER]), BOTH, trace=path))
    assert list(load(path).events()) == live
    assert pickle.loads(pickle.dumps(live)) == live
    return path


@pytest.mark.parametrize(
    ("where", "value", "sentence"),
    [
        (["swapped", "turns", 0, "number"], 7, "turn 1 is missing"),
        (["swapped", "turns", 0, "frames", 0, "jpeg"], "PHN2Zz4=", "no small JPEG"),
        (["swapped", "started", "clips", 0, "digest"], "another", "not compare the same pair"),
        (["swapped", "started", "prompt"], "another", "not compare the same pair"),
        (["swapped", "started", "judge"], "another", "not compare the same pair"),
        (["finished"], None, "not compare the same pair"),
        (["finished", "verdict"], None, "not compare the same pair"),
        (["swapped"], 7, "swapped"),
        (["swapped", "finished", "verdict", "OA"], 3, "swapped"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_second_run_from_a_stranger_is_checked_as_the_first_is(
    stored: Path, where: list[str | int], value: object, sentence: str
) -> None:
    with pytest.raises(TraceError, match=sentence):
        from_json(changed(stored.read_bytes(), where, value))


def test_the_bound_on_frames_counts_both_runs(stored: Path) -> None:
    """Neither run alone passes it."""

    def data_of(copies: int) -> bytes:
        data = json.loads(stored.read_bytes())
        for run in (data, data["swapped"]):
            turn = run["turns"][0] | {"frames": (run["turns"][0]["frames"] * 6)[:30]}
            run["turns"] = [{**turn, "number": n + 1} for n in range(copies)]
        return json.dumps(data).encode()

    assert len(from_json(data_of(1)).turns) == 1
    with pytest.raises(TraceError, match="shows 2400 frames"):
        from_json(data_of(40))


def test_swap_prints_a_word_for_each_dimension(clips: Clips, tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text("\n".join(json.dumps({"reply": reply}) for reply in (CALL, ANSWER)))
    trace = ("--trace", tmp_path / "run.json")
    live = compare(clips, f"scripted:{script}", "--swap", *trace)
    assert live.returncode == 0, live.stderr
    table = live.stdout.partition("Both orders")[2].splitlines()[1:]
    assert [" ".join(line.split()) for line in table] == [
        "Text alignment video 1 video 2 flips",
        "Motion quality tie tie stable",
        "Visual quality video 2 video 1 flips",
        "Overall video 1 video 2 flips",
    ]
    assert live.stdout.count("Turn 1") == 2
    assert load(tmp_path / "run.json").swapped is not None
    again = run_command("replay", tmp_path / "run.json")
    assert (again.stdout, again.returncode) == (live.stdout, 0)
    effects = {"TA": "flips", "MQ": "stable", "VQ": "flips", "OA": "flips"}
    expected = {**LABELS, "swapped": {"TA": 2, "MQ": 0, "VQ": 1, "OA": 2}, "order": effects}
    assert json.loads(run_command("replay", tmp_path / "run.json", "--json").stdout) == expected
