"""Pair sets: which pair a number means, in which order training meets them, and frames of files from a few open pairs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.benchmarks.nano import UNSEEN
from tests.support.drawn_rollouts import look
from tests.support.waiting import until
from tests.test_cli import call
from tests.training.tables import PAIRED, SAID, numbered_rows, write_table
from vrthinker_core import ScriptedBackend
from vrthinker_core.backends.judge_name import NANO
from vrthinker_core.commands.terminal import INTERRUPTED
from vrthinker_core.drawn.world import TRAINING_SEEDS
from vrthinker_core.errors import VideoError
from vrthinker_core.protocols.factory import frame_plans
from vrthinker_core.results.open_dataset import read_dataset
from vrthinker_core.results.trace_files import MADE
from vrthinker_core.runner import judge
from vrthinker_core.traces import load
from vrthinker_core.training import pair_set as open_clips
from vrthinker_core.training.config import PartsConfig
from vrthinker_core.training.data import open_pairs
from vrthinker_core.training.pair_set import (
    PARTS,
    ClipFrames,
    OpenClips,
    PairSet,
)
from vrthinker_core.training.rollouts import LabelledPair, play
from vrthinker_core.training.run_folder import StageRun
from vrthinker_core.types import FrameRef, Settings, Side, Verdict, VideoPair
from vrthinker_core.types.frames import FrameSource
from vrthinker_core.types.messages import Message
from vrthinker_core.video import Clip
from vrthinker_core.video.clip import frame_source


def numbered(size: int, prompts: int | None = None) -> PairSet:
    """Pairs that are told apart by their prompts, of which there are as many or fewer."""

    def pair(number: int) -> LabelledPair:
        return LabelledPair(str(number % (prompts or size)), Verdict(), lambda refs: (), number)

    return PairSet(pair, size)


def prompts(pairs: PairSet, most: int | None = None) -> list[str]:
    return [pairs.pair(number).prompt for number in range(most or pairs.size or 0)]


def order(seed: int, size: int, start: int, count: int) -> list[int]:
    shuffled = numbered(size).shuffled(seed)
    return [int(shuffled.pair(number).prompt) for number in range(start, start + count)]


def test_pairs_take_the_protocols_in_turn_and_are_judged_in_them() -> None:
    pairs = open_pairs("drawn:5", frame_plans(Settings(), ("paired", "concat")))
    judge = ScriptedBackend(["<Answer>TA=0</Answer>"], protocol="paired")
    played = list(play([pairs.pair(number) for number in range(4)], judge, Settings(max_turns=1)))
    assert [rollout.run.started.dialect for rollout in played] == ["paired", "concat"] * 2
    for rollout in played:
        frames = rollout.run.turns[0].frames
        assert len({frame.index for frame in frames}) == 4, "four frames of each clip, all over it"
        assert max(frame.index for frame in frames) > 80


def test_no_judge_is_trained_with_what_it_is_measured_with() -> None:
    assert TRAINING_SEEDS <= UNSEEN
    drawn = [PairSet.drawn(seed).pair(number) for seed in range(3) for number in range(30)]
    seeds = {pair.source.pair.seed for pair in drawn}
    assert len(seeds) == 90
    assert max(seeds) < UNSEEN


@pytest.mark.parametrize("size", [2, 7, 8, 40, 3000])
def test_parts_are_disjoint_by_prompt_and_the_same_in_every_set(size: int) -> None:
    """Prompts come three times each; the stages of a small set share what is not held out."""
    config, pairs = PartsConfig(), numbered(3 * size, size)
    parts = {name: prompts(pairs.part(name, config)) for name in PARTS}
    held_out = parts.pop("held-out")
    assert held_out
    assert {*held_out}.isdisjoint({each for found in parts.values() for each in found})
    assert all(sorted(found) == sorted(3 * [*{*found}]) for found in (held_out, *parts.values()))
    if size >= 40:
        assert not pairs.sharing(config)
        assert sum(map(len, parts.values())) + len(held_out) == 3 * size
        assert parts["grpo"] != prompts(pairs.part("grpo", replace(config, seed=1)))
    else:
        assert f"hold {size} prompts, too few to divide" in pairs.sharing(config)
        assert all(len(found) == 3 * (size - 1) for found in parts.values())
    if size == 3000:
        shares = [len(found) / (3 * size) for found in (*parts.values(), held_out)]
        assert shares == pytest.approx([0.3, 0.3, 0.3, 0.1], abs=0.03)
        mixture = PairSet.mixed([(numbered(40), 1.0), (pairs, 1.0), (PairSet.drawn(1), 1.0)], 0)
        mixed = {*prompts(mixture.part("grpo", config), 300)}
        assert {each for each in mixed if each.isdecimal()} <= {*parts["grpo"]}
        assert not all(each.isdecimal() for each in mixed)


def test_every_command_keeps_to_its_part_and_so_does_a_run_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"A dog, number {n}." for n in range(30)]
    rows = [("v.mp4", "v.mp4", prompt, "1", n, "2", "1") for n in "01" for prompt in names]
    table, script = write_table(tmp_path, rows), tmp_path / "script.jsonl"
    script.write_text(json.dumps({"reply": SAID, "protocol": "paired"}))
    found: dict[str, list[list[str]]] = {name: [] for name in PARTS[:3]}

    def noted(run: StageRun, pairs: PairSet, *_: object) -> Path | None:
        found[run.folder.state.stage].append(prompts(pairs))
        if not (half := run.folder.checkpoints / "half").exists():
            half.write_text("stopped here")
            return None
        (run.folder.path / "metrics.jsonl").touch()
        return run.folder.finish(shutil.copytree(NANO, run.folder.path / MADE))

    for name in ("cold_start", "rejection", "run_grpo"):
        monkeypatch.setattr(f"vrthinker_core.training.stages.{name}", noted)
    monkeypatch.setattr("vrthinker_core.training.stages.play", lambda *_: [])
    asked = ("--model", "nano", "--data", table, "--teacher", f"scripted:{script}", "--resume")
    for stage, starts in (("all", 4), ("rejection", 2)):
        begun = [call("train", stage, *asked, "--out", tmp_path / stage) for _ in range(starts)]
        assert [code for code, *_ in begun] == [INTERRUPTED] * (starts - 1) + [0], begun
    assert [len(times) for times in found.values()] == [2, 4, 2]
    assert all(times == [times[0]] * len(times) for times in found.values())
    parts = {name: {*times[0]} for name, times in found.items()}
    assert sum(map(len, parts.values())) == len(set.union(*parts.values())) < len(names)
    taught = ("teacher", "--judge", f"scripted:{script}", "--data", table, "--out", tmp_path / "t")
    assert call(*taught)[0] == 0
    traces = (tmp_path / "t" / "traces").iterdir()
    assert {load(trace).started.prompt for trace in traces} == parts["cold-start"]


def test_every_epoch_has_each_pair_once_in_an_order_of_its_own() -> None:
    epochs = [order(1, 12, start, 12) for start in (0, 12, 24)]
    assert all(sorted(epoch) == list(range(12)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert order(1, 12, 7, 20) == [*epochs[0], *epochs[1], *epochs[2]][7:27]
    assert order(2, 12, 0, 12) != epochs[0]
    shuffled = numbered(3).shuffled(1)
    assert len({shuffled.pair(number).seed for number in range(9)}) == 9, "it is answered anew"
    drawn = PairSet.drawn(5)
    assert drawn.shuffled(9) is drawn, "pairs without an end keep their order"


REFS = (FrameRef(16, Side.SECOND), FrameRef(0, Side.FIRST), FrameRef(16, Side.FIRST))


REPLIES = (look(3, 90), SAID)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("pairs"), numbered_rows("A", "B", "C", "D"))


def running(pids: set[int]) -> set[int]:
    return set(filter(psutil.pid_exists, pids))


def test_a_rollout_over_files_is_sent_what_the_product_sends(table: Path) -> None:
    (row, *_), sent = read_dataset("csv", table), list[tuple[Message, ...]]()

    def reply(messages: Sequence[Message]) -> str:
        sent.append(tuple(messages))
        return REPLIES[(len(sent) - 1) % 2]

    def pixels(turns: list[tuple[Message, ...]]) -> list[list[bytes]]:
        return [[frame.rgb for message in turn for frame in message.frames] for turn in turns]

    backend = ScriptedBackend(reply, protocol="paired")
    events = list(judge(row.videos, backend, Settings()))
    with PairSet.of_rows([row], PAIRED) as pairs:
        (rollout,) = play([pairs.pair(0)], backend, Settings())
    assert len(sent) == 4
    assert sent[:2] == sent[2:]
    assert pixels(sent[:2]) == pixels(sent[2:])
    assert rollout.correct
    assert rollout.run.started.clips == events[0].clips  # type: ignore[union-attr]


def test_many_pairs_leave_no_process_behind(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    videos = [row.videos for row in read_dataset("csv", table)]
    pids: set[int] = set()

    def noted(clips: tuple[Clip, Clip]) -> FrameSource:
        pids.update(clip.pid for clip in clips)
        return frame_source(clips)

    monkeypatch.setattr(open_clips, "frame_source", noted)
    with OpenClips(PAIRED["paired"], most=2) as clips:
        sources = [ClipFrames(each, clips) for each in videos]
        pictures = [[frame.rgb for frame in source(REFS)] for source in sources]
        for source, seen in zip(sources, pictures, strict=True):
            assert [frame.rgb for frame in source(REFS)] == seen, "also when opened again"
        assert len(pids) > 4
        assert len(running(pids)) <= 4
    assert len({tuple(seen) for seen in pictures}) == 4
    until(lambda: not running(pids))


def test_an_unreadable_video_is_named_and_the_others_go_on(table: Path, tmp_path: Path) -> None:
    broken, first = tmp_path / "broken.mp4", table.parent / "0a.mp4"
    broken.write_bytes(first.read_bytes()[:300])
    with OpenClips(PAIRED["paired"]) as clips:
        with pytest.raises(VideoError, match=r"Video 2: broken\.mp4"):
            ClipFrames(VideoPair("p", first, broken), clips)(REFS)
        whole = VideoPair("p", first, table.parent / "0b.mp4")
        assert len(ClipFrames(whole, clips)(REFS)) == 3
