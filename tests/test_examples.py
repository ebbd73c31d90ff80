"""The examples that come with the page: none contradicts itself, and none gives its verdict away before it is opened."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vrthinker_core.drawn.notes import read_frame_facts
from vrthinker_core.protocols.parser import find_sentence
from vrthinker_core.traces import load
from vrthinker_core.types import Dimension
from vrthinker_core.types.events import Trace, Turn
from vrthinker_core.types.wording import SCRIPTED
from vrthinker_core.ui import words
from vrthinker_core.ui.history import Examples, RunRecord
from vrthinker_core.ui.page import EXAMPLES
from vrthinker_core.ui.routes import render_report
from vrthinker_core.ui.view import RunView, ThumbnailFiles
from vrthinker_core.video.files import file_digest

FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/trace.json"))
every_example = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)

CONCLUSION = re.compile(r"so (?:[Vv]ideo ([12]) is better|they tie|neither is better)")
WEIGHTS = {Dimension.TA: 1.5, Dimension.VQ: 1, Dimension.MQ: 1}
"""Of the drawn world: what its overall labels are made of."""


def by_the_built_in_judge(trace: Trace) -> bool:
    return trace.started.judge.startswith("nano")


def asked_for(turn: Turn) -> set[str]:
    """Every number in the turn's calls, also of those frames that it did not get."""
    calls = re.findall(r"<tool_call>.*?</tool_call>", turn.completion.text, re.DOTALL)
    return {number for call in calls for number in re.findall(r"\d+", call)}


@every_example
def test_every_frame_that_is_named_was_given_or_asked_for(folder: Path) -> None:
    known: set[str] = set()
    trace = load(folder / "trace.json")
    for turn in trace.turns:
        known |= {frame.number for frame in turn.frames} | asked_for(turn)
        reply = turn.reply
        written = f"{reply.snapshot} {reply.think}"
        named = set(re.findall(r"(?:#|frames? )(\d+)", written))
        assert named <= known
        if by_the_built_in_judge(trace):
            videos = read_frame_facts(reply.snapshot)
            noted = [[fact.frame for fact in video.frames] for video in videos]
            shown = list(dict.fromkeys(frame.number for frame in turn.frames))
            halves = [shown[: len(noted[0])], shown[len(noted[0]) :]]
            assert noted in ([shown, shown], halves), "each is noted once, in its order"


@every_example
def test_the_last_words_about_each_dimension_say_its_label(folder: Path) -> None:
    trace = load(folder / "trace.json")
    labels = dict(trace.finished.verdict)
    for dimension, label in labels.items():
        found = CONCLUSION.search(find_sentence(dimension, [trace.turns[-1].reply.think]))
        assert int(found[1] or 0) == label, dimension
    if by_the_built_in_judge(trace):
        signs = {None: 0, 0: 0, 1: -1, 2: 1}
        balance = sum(weight * signs[labels[each]] for each, weight in WEIGHTS.items())
        assert labels[Dimension.OA] == (balance < 0) + 2 * (balance > 0)


@every_example
def test_an_example_holds_the_very_videos_it_compared(folder: Path) -> None:
    clips = load(folder / "trace.json").started.clips
    assert [clip.digest if clip else "" for clip in clips] == [
        file_digest(folder / name) for name in ("first.mp4", "second.mp4")
    ]


@pytest.mark.parametrize(
    "snapshot",
    ["", "Video 1: a ball.\nVideo 2: a cube.", "Video 1: 1 2 3\n" * 9_999, "\x00" * 99_999],
    ids=len,
)
def test_other_snapshots_are_no_table(snapshot: str) -> None:
    assert read_frame_facts(snapshot) == ()


def test_cards_say_what_is_learnt_and_not_the_verdict(tmp_path: Path) -> None:
    cards = Examples(EXAMPLES).cards(lambda name: ThumbnailFiles(tmp_path / name, name))
    rows = [card["row"] for card in cards]
    assert rows == sorted(rows, key=[*words.EXAMPLE_ROWS.values()].index)
    folded = words.EXAMPLE_ROWS[words.FOLDED]
    assert rows.count(words.EXAMPLE_ROWS["think"]) >= 4
    assert [card["folded"] for card in cards] == [row == folded for row in rows]
    assert [bool(card["hero"]) for card in cards].count(True) == 1
    assert sum(card["about"].startswith("Scripted. Real footage: ") for card in cards) >= 1
    for card in cards:
        text = f"{card['title']} {card['prompt']} {card['about']}"
        telling = r"(?i)video [12]\b|better|equal(ly)? good|\btie\b|wrong|blurry|jitter"
        assert not re.search(telling, text), text


def test_no_script_is_taken_for_a_judge_and_footage_names_its_owner() -> None:
    for name, example in Examples(EXAMPLES).by_name.items():
        started, end = example.trace.started, example.trace.finished
        assert end.scripted == (not by_the_built_in_judge(example.trace))
        drawn = all(clip.drawn for clip in started.clips)
        assert drawn != bool(example.credit), name
        if end.scripted:
            assert RunView(example.trace).headline == SCRIPTED
            assert RunRecord.of("", example.trace, 0, 1).row(name)["outcome"] == SCRIPTED
            assert f"<title>{SCRIPTED} · " in render_report(example.trace)
        if example.credit:
            assert "CC BY" in example.credit
            assert any(example.credit in note for note in started.notes), "the report shows it"
            assert sum(path.stat().st_size for path in (EXAMPLES / name).iterdir()) < 1_000_000
