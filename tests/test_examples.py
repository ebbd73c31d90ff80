"""The examples that come with the page: none contradicts itself, and none gives its verdict away before it is opened."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from vrthinker_core.dialects.reading.frame_facts import read_frame_facts
from vrthinker_core.dialects.reading.reasons import find_sentence, frame_numbers
from vrthinker_core.traces import load
from vrthinker_core.types import Dimension
from vrthinker_core.types.events import Trace, Turn
from vrthinker_core.ui.view import words
from vrthinker_core.ui.view.assets import EXAMPLES
from vrthinker_core.ui.view.example_cards import Examples
from vrthinker_core.ui.view.thumbnail_files import ThumbnailFiles
from vrthinker_core.video.files import file_digest

FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/trace.json"))
every_example = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)

CONCLUSION = re.compile(r"so (?:Video ([12]) is better|they (tie)|([012])\.)")
COMPARED = re.compile(r"^(?:TA|VQ|MQ): 1 (?:has )?(\w+)(?: wrong)?, 2 (?:has )?(\w+)(?: wrong)?, so ([012])\.$", re.MULTILINE)
FACT = re.compile(r"^(?:Color|Shape|Way) \w+: 1 (\w+) (same|wrong), 2 (\w+) (same|wrong)\.$", re.MULTILINE)
WITHOUT_FAULT = ("0", "clear", "smooth")
WEIGHTS = {Dimension.TA: 1.5, Dimension.VQ: 1, Dimension.MQ: 1}
"""Of the drawn world: what its overall labels are made of."""
MAX_BYTES = 3_000_000


def by_the_built_in_judge(trace: Trace) -> bool:
    return trace.started.judge.startswith("nano")


def asked_for(turn: Turn) -> set[str]:
    """Every number in the turn's calls, also of those frames that it did not get."""
    calls = re.findall(r"<tool_call>.*?</tool_call>", turn.completion.text, re.DOTALL)
    return {number for call in calls for number in re.findall(r"\d+", call)}


@every_example
def test_every_frame_that_is_named_was_given_or_asked_for(folder: Path) -> None:
    known: set[str] = set()
    for turn in load(folder / "trace.json").turns:
        known |= {frame.number for frame in turn.frames} | asked_for(turn)
        reply = turn.reply
        named = {str(number) for text in (reply.snapshot, reply.think) for number in frame_numbers(text)}
        facts = read_frame_facts(reply.snapshot, [frame.number for frame in turn.frames[: len(turn.frames) // 2]])
        noted = [[fact.frame for fact in video.frames] for video in facts]
        assert named | {number for numbers in noted for number in numbers} <= known
        for numbers in noted:
            assert numbers == list(dict.fromkeys(frame.number for frame in turn.frames)), "each frame is noted once, in its order"


@every_example
def test_every_conclusion_follows_from_what_stands_before_it(folder: Path) -> None:
    trace = load(folder / "trace.json")
    wrong: list[str] = []
    for turn in trace.turns:
        reply = turn.reply
        for first, second, label in COMPARED.findall(reply.think):
            both = first in WITHOUT_FAULT, second in WITHOUT_FAULT
            assert int(label) == {(True, False): 1, (False, True): 2}.get(both, 0), (first, second, label)
        if facts := FACT.findall(reply.think):
            wrong = [str(sum(fact[side] == "wrong" for fact in facts)) for side in (1, 3)]
        if by_the_built_in_judge(trace):
            assert re.findall(r"TA: 1 has (\d) wrong, 2 has (\d) wrong", reply.think) == [tuple(wrong)]
            last = re.findall(r"^Video \d: .*: (\w+) (\w+)$", reply.snapshot, re.MULTILINE)
            assert [f"{a}, 2 {b}" for a, b in zip(*last, strict=True)] == re.findall(r"[VM]Q: 1 (\w+, 2 \w+)", reply.think)


@every_example
def test_the_last_words_about_each_dimension_say_its_label(folder: Path) -> None:
    trace = load(folder / "trace.json")
    assert trace.finished is not None
    assert trace.finished.verdict is not None
    labels = dict(trace.finished.verdict)
    for dimension, label in labels.items():
        if dimension is Dimension.OA and by_the_built_in_judge(trace):
            assert label == weighed(labels)
            continue
        found = CONCLUSION.search(find_sentence(dimension, [trace.turns[-1].reply.think]))
        assert found is not None, dimension
        assert int(found[1] or found[3] or 0) == label, found[0]


def weighed(labels: Mapping[Dimension, int | None]) -> int:
    balance = sum(weight * {0: 0, 1: -1, 2: 1}[labels[dimension] or 0] for dimension, weight in WEIGHTS.items())
    return (balance < 0) + 2 * (balance > 0)


@every_example
def test_an_example_holds_the_very_videos_it_compared(folder: Path) -> None:
    clips = load(folder / "trace.json").started.clips
    assert [clip.digest if clip else "" for clip in clips] == [file_digest(folder / name) for name in ("first.mp4", "second.mp4")]


def test_the_frame_facts_of_the_built_in_judge_are_read_as_a_table() -> None:
    for folder in FOLDERS:
        trace = load(folder / "trace.json")
        for turn in trace.turns:
            facts = read_frame_facts(turn.reply.snapshot, [str(number) for number in range(4)])
            if not by_the_built_in_judge(trace):
                assert facts == ()
                continue
            pairs = len(turn.frames) // 2
            assert [len(video.frames) for video in facts] == [pairs, pairs]
            assert all(fact.frame for video in facts for fact in video.frames)


@pytest.mark.parametrize(
    "snapshot",
    [
        "",
        "Video 1: a ball.\nVideo 2: a cube.",
        "Video 1: 21 20 7 clear first: clear smooth",
        "Video 1: 1 2 3\n" * 9_999,
        "\x00" * 99_999,
    ],
)
def test_other_snapshots_are_no_table(snapshot: str) -> None:
    assert read_frame_facts(snapshot) == ()


def test_cards_say_what_is_learnt_and_not_the_verdict(tmp_path: Path) -> None:
    cards = Examples(EXAMPLES).cards(lambda name: ThumbnailFiles(tmp_path / name, name))
    rows = [card["row"] for card in cards]
    assert rows == sorted(rows, key=list(words.EXAMPLE_ROWS.values()).index)
    assert rows.count("See it think") >= 4
    assert rows.count("How the protocol behaves") >= 3
    for card in cards:
        text = f"{card['title']} {card['prompt']} {card['judge']}"
        assert not re.search(r"video [12]\b|better|equal(ly)? good|\btie\b|wrong|blurry|jitter", text, re.IGNORECASE), text


def test_rows_hold_what_they_promise() -> None:
    traces = [load(folder / "trace.json") for folder in FOLDERS if folder.name.startswith("protocol-")]
    assert any(turn.forced for trace in traces for turn in trace.turns)
    wants = [turn.reply.wants for trace in traces for turn in trace.turns if turn.reply.wants]
    assert any(want.dropped for want in wants)
    assert any(want.truncated for want in wants)
    assert {trace.started.dialect for trace in traces} == {"paired", "concat"}


def test_the_examples_are_small() -> None:
    assert sum(path.stat().st_size for path in EXAMPLES.rglob("*") if path.is_file()) < MAX_BYTES
