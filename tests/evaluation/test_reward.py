"""The judge as a reward: win rates of the videos of a prompt, None where nothing was said, batched, cancelled, with traces."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.small_clips import write_clip
from tests.support.threads import run_in_thread, threads_started
from tests.video.support.open_clips import pixels
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.reward import Reward, areward, reward, reward_many
from vrthinker_core.traces import load
from vrthinker_core.types import Dimension, Settings, Side, StopReason
from vrthinker_core.types.messages import Message
from vrthinker_core.types.wording import OUTSIDE_SCOPE

HUES = (80, 0, 120, 40)  # Of four clips: the redder, the better
ANSWER = "<Snapshot>s</Snapshot><Think>t</Think><Answer>{}</Answer>"


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("videos")
    return [write_clip(folder / f"{hue}.mp4", frames=10, hue=hue) for hue in HUES]


def redness(messages: Sequence[Message], side: Side) -> float:
    frames = (frame for message in messages for frame in message.frames)
    return float(pixels(next(each for each in frames if each.ref.side == side))[-1, :, 0].mean())


def redder(messages: Sequence[Message]) -> str:
    better = 1 if redness(messages, Side.FIRST) > redness(messages, Side.SECOND) else 2
    return ANSWER.format(f"TA=0, MQ=1, VQ={better}, OA={better}")


TRUTH = ScriptedBackend(redder, protocol="paired")


def test_a_win_rate_is_the_share_of_the_beaten(videos: list[Path], tmp_path: Path) -> None:
    found = reward("A block.", videos, TRUTH, traces=tmp_path)
    assert found.overall == found.rates[Dimension.VQ] == (2 / 3, 0.0, 1.0, 1 / 3)
    assert found.best == 2
    assert found.rates[Dimension.TA] == (0.5,) * 4, "a tie is half a win"
    favoured = pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3])
    assert sorted(found.rates[Dimension.MQ]) == favoured, "a favourite side favours nobody"
    met = {frozenset((pair.first, pair.second)) for pair in found.pairs}
    assert met == set(map(frozenset, combinations(range(4), 2)))
    assert found.errors == ()
    kept = {load(path).finished for path in tmp_path.iterdir()}
    assert kept == {pair.trace.finished for pair in found.pairs}
    again = reward("A block.", videos[::-1], TRUTH).overall
    assert again == found.overall[::-1], "the order of videos changes nothing"


def test_both_orders_take_away_what_the_side_decides(videos: list[Path]) -> None:
    found = reward("A block.", videos[:3], TRUTH, Settings(swap="on"))
    assert found.rates[Dimension.MQ] == (0.5, 0.5, 0.5)
    assert found.overall == (0.5, 0.0, 1.0)


def test_what_was_not_said_is_none_and_never_zero(videos: list[Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video")
    found = reward("A block.", [videos[0], broken, videos[1]], TRUTH)
    assert found.overall == (1.0, None, 0.0)
    assert found.best == 0
    assert len(found.errors) == 2
    judge = ScriptedBackend([ANSWER.format("TA=1")], protocol="paired")
    silent = reward("A block.", videos[:2], judge)
    assert (silent.overall, silent.best) == ((None, None), None)
    assert silent.rates[Dimension.TA] == (1.0, 0.0)


@pytest.mark.parametrize("swap", ["off", "on"])
def test_a_judge_outside_its_scope_rewards_nothing(videos: list[Path], swap: Any) -> None:
    judge, settings = ScriptedBackend(redder, protocol="paired", scope="drawn"), Settings(swap=swap)
    awaited = run_in_thread(areward("A block.", videos[:3], judge, settings))
    for found in (reward("A block.", videos[:3], judge, settings), awaited):
        assert [error.startswith(OUTSIDE_SCOPE) for error in found.errors] == [True] * 3
        assert (set(found.rates.values()), found.best) == ({(None, None, None)}, None)


def test_prompts_share_batches_and_keep_their_places(videos: list[Path]) -> None:
    groups = [("One.", videos[:2]), ("Two.", videos[1:]), ("Three.", videos[::-1])]
    found = reward_many(groups, TRUTH, concurrency=3)
    assert [each.prompt for each in found] == ["One.", "Two.", "Three."]
    alone = [reward(prompt, some, TRUTH).overall for prompt, some in groups]
    assert [each.overall for each in found] == alone


def test_a_prompt_that_is_no_text_costs_its_own_videos_alone(videos: list[Path]) -> None:
    groups: list[tuple[Any, list[Path]]] = [(float("nan"), videos[:2]), ("Two.", videos[:2])]
    broken, whole = reward_many(groups, TRUTH)
    assert broken.overall == (None, None)
    assert [error.partition(".")[0] for error in broken.errors] == ["The prompt is empty"]
    assert whole.overall == reward("Two.", videos[:2], TRUTH).overall


def test_a_run_that_was_stopped_says_so(videos: list[Path]) -> None:
    found = reward("A block.", videos[:2], TRUTH, cancelled=lambda: True)
    assert found.errors == ("The run was stopped.",)


def test_what_is_no_list_of_videos_and_what_judges_nothing_is_refused(videos: list[Path]) -> None:
    for few in ([], videos[:1]):
        with pytest.raises(BadInput, match="at least two videos"):
            reward("A block.", few, TRUTH)
    for one in (videos[0], str(videos[0])):
        with pytest.raises(BadInput, match="a list of paths"):
            reward("A block.", one, TRUTH)  # type: ignore[arg-type]
    for concurrency in (0, -1, 2.5, "2"):
        with pytest.raises(BadInput, match=f"concurrency={concurrency} is no number of pairs"):
            reward_many([("A block.", videos)], TRUTH, concurrency=concurrency)  # type: ignore[arg-type]


def test_judge_and_folder_may_be_named_by_words(videos: list[Path], tmp_path: Path) -> None:
    script, answer = tmp_path / "script.jsonl", ANSWER.format("TA=1, MQ=1, VQ=1, OA=1")
    script.write_text(json.dumps({"reply": answer}), "utf-8")
    found = reward("A block.", videos[:2], f"scripted:{script}", traces=str(tmp_path / "kept"))
    assert found.overall == (1.0, 0.0)
    assert load(str(tmp_path / "kept" / "group-1-videos-1-2.json")).finished is not None
    with pytest.raises(BadInput, match="There is no judge"):
        reward("A block.", videos[:2], "nobody")


def test_it_can_be_awaited(videos: list[Path]) -> None:
    async def both() -> list[Reward]:
        groups = ("One.", videos), ("Two.", videos[:2])
        return await asyncio.gather(*(areward(*group, TRUTH) for group in groups))

    one, two = run_in_thread(both())
    assert (one.best, two.best) == (2, 0)


def test_a_task_that_is_cancelled_ends_its_runs(videos: list[Path], tmp_path: Path) -> None:
    started = threading.Event()

    def slow(messages: Sequence[Message]) -> str:
        started.set()
        return ANSWER.format("TA=1") + "x" * 100_000

    async def cancelled() -> None:
        judge = ScriptedBackend(slow, "paired", pause=0.01)
        task = asyncio.create_task(areward("A block.", videos[:2], judge, traces=tmp_path))
        await asyncio.to_thread(started.wait, 50)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_in_thread(cancelled())
    (path,) = tmp_path.iterdir()
    end = load(path).finished
    assert end.stop is StopReason.CANCELLED


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    with threads_started() as started:
        yield
    assert [thread.name for thread in started if thread.is_alive() and not thread.daemon] == []


@pytest.mark.parametrize("at_once", [True, False], ids=["one call", "a call a group"])
def test_a_judge_that_favours_a_side_favours_no_place(at_once: bool, videos: list[Path]) -> None:
    one_sided = ScriptedBackend([ANSWER.format("TA=1, MQ=1, VQ=1, OA=1")], protocol="paired")
    groups = [(f"Block {number}.", videos[:2]) for number in range(24)]
    alone = (reward(prompt, pair, one_sided) for prompt, pair in groups)
    found = reward_many(groups, one_sided) if at_once else list(alone)
    firsts = [each.overall[0] for each in found]
    assert set(firsts) == {0.0, 1.0}
    assert np.mean(firsts) == pytest.approx(0.5, abs=0 if at_once else 0.25)
