"""The engine of this process: a result for each pair, in threads and in batches, whatever becomes of the others."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.support.scripted_runs import answer, scripted_judge, write_table
from tests.support.decoders import decoders
from tests.support.drawn_pairs import drawn_pairs
from tests.support.engines import BatchScript
from vrthinker_core.backends import Backend, ScriptedBackend
from vrthinker_core.drawn.teacher import play_teacher
from vrthinker_core.drawn.world import pair_of
from vrthinker_core.errors import BackendRefused, ServerUnavailable
from vrthinker_core.evaluation.job import judge_rows
from vrthinker_core.evaluation.local_engine import judge_locally
from vrthinker_core.protocols import make_protocol
from vrthinker_core.results import result as stored
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.open_dataset import read_dataset
from vrthinker_core.results.result import RESULTS, TRACES, PairResult
from vrthinker_core.traces import load
from vrthinker_core.types import Settings, Side, StopReason
from vrthinker_core.types.wording import OUTSIDE_SCOPE

every_way = pytest.mark.parametrize("batch", [False, True], ids=["threads", "batch"])


def some_pairs(folder: Path, rows: int) -> list[EvaluationPair]:
    """Pairs beside a folder for their traces."""
    (folder / TRACES).mkdir()
    return read_dataset("csv", write_table(folder, rows))


def judged(backend: Backend, settings: Settings, out: Path, pair: EvaluationPair) -> PairResult:
    """The result of one pair."""
    (result,) = judge_locally([pair], backend, settings, out, 1)
    return result


@every_way
def test_pairs_that_fail_take_no_other_with_them(tmp_path: Path, batch: bool) -> None:
    pairs = some_pairs(tmp_path, 6)
    (tmp_path / "text.mp4").write_text("no video at all")
    pairs[1] = replace(pairs[1], prompt="The judge fails here.")
    pairs[2] = replace(pairs[2], prompt="This is refused.")
    pairs[3] = replace(pairs[3], second=str(tmp_path / "text.mp4"))
    pairs[4] = replace(pairs[4], first=str(tmp_path / "gone meanwhile.mp4"))
    found = judge_locally(iter(pairs), scripted_judge(batch=batch), Settings(), tmp_path, 2)
    results = {result.pair.row: result for result in found}
    faults = ["", "BackendFailed", "BackendRefused", "VideoError", "VideoError", ""]
    assert {row: each.fault for row, each in results.items()} == dict(enumerate(faults, start=1))
    assert [results[row].is_transient for row in (2, 3, 4)] == [True, False, False]
    unreadable = [results[row].unreadable for row in (1, 2, 4, 5)]
    assert unreadable == [(), (), (Side.SECOND,), (Side.FIRST,)]
    for row in (1, 6):
        assert load(tmp_path / results[row].trace).finished.verdict == results[row].verdict
        assert results[row].turns == 1
        assert results[row].clip_seconds == pytest.approx((1 / 3, 1 / 3))


def test_both_videos_may_be_unreadable(tmp_path: Path) -> None:
    """And one that may be read later is not."""
    pair = read_dataset("csv", write_table(tmp_path, 1))[0]
    (tmp_path / "empty.mp4").touch()
    neither = replace(pair, first=str(tmp_path / "gone.mp4"), second=str(tmp_path / "empty.mp4"))
    judge = partial(judged, scripted_judge(), Settings(), tmp_path)
    assert judge(neither).unreadable == (Side.FIRST, Side.SECOND)
    result = judge(replace(pair, second="/proc/self/mem"))
    assert (result.fault, result.unreadable) == ("VideoUnavailable", ())


def kill_decoder_of(video: str) -> None:
    for process in decoders():
        if any(file.path == video for file in process.open_files()):
            process.kill()


@pytest.mark.parametrize("swap", ["off", "on"])
@pytest.mark.parametrize("side", Side)
def test_a_video_that_breaks_is_known_by_its_side(tmp_path: Path, side: Side, swap: Any) -> None:
    (pair,) = some_pairs(tmp_path, 1)
    call = '<Think>t</Think><tool_call>{"name": "select_frames", "arguments": {"frame_indices": [10, 30]}}</tool_call>'
    replies = ([answer("")] if swap == "on" else []) + [call]

    def reply(_: object) -> str:
        if len(replies) == 1:
            kill_decoder_of(pair.first if side is Side.FIRST else pair.second)
        return replies.pop(0)

    result = judged(ScriptedBackend(reply, "paired"), Settings(swap=swap), tmp_path, pair)
    assert (result.fault, result.unreadable, replies) == ("DecoderDied", (side,), [])


def test_threads_and_batch_give_the_same_results_in_both_orders(tmp_path: Path) -> None:
    pairs = some_pairs(tmp_path, 4)
    pairs[1] = replace(pairs[1], prompt="This is refused.")
    found = []
    for batch in (False, True):
        judge = scripted_judge(batch=batch)
        results = judge_locally(pairs, judge, Settings(swap="on"), tmp_path, 3)
        untimed = (replace(result, seconds=0.0) for result in results)
        found.append(sorted(untimed, key=lambda result: result.pair.row))
    assert found[0] == found[1]
    assert {result.pair.row for result in found[0] if result.order} == {1, 3, 4}


def test_a_second_order_that_failed_is_told_and_judged_again_if_it_may(tmp_path: Path) -> None:
    pairs = some_pairs(tmp_path, 2)
    gone, refused = ServerUnavailable("The server is gone."), BackendRefused("It will not.")
    replies = iter([answer(""), gone, answer(""), refused])
    backend = ScriptedBackend(lambda _: next(replies))
    first, second = judge_locally(pairs, backend, Settings(swap="on"), tmp_path, 1)
    assert (first.judged, first.is_transient) == (False, True)
    assert first.error == "In the second order: The server is gone."
    assert (second.judged, second.order) == (True, None)
    assert second.error == "In the second order: It will not."


@every_way
@pytest.mark.parametrize("reply", [answer("real"), "I cannot say."], ids=["answered", "no answer"])
def test_a_pair_outside_the_scope_has_no_label(tmp_path: Path, batch: bool, reply: str) -> None:
    """Whatever it wrote of clips that this project did not draw; its words stay in the trace."""
    (pair,) = some_pairs(tmp_path, 1)
    backend = (BatchScript if batch else ScriptedBackend)([reply], "paired", scope="drawn")
    (result,) = judge_locally([pair], backend, Settings(swap="on"), tmp_path, 1)
    assert (result.outside_scope, result.has_verdict, result.is_transient) == (True, False, False)
    assert result.stop is (StopReason.ANSWERED if "Answer" in reply else StopReason.NO_ANSWER)
    assert {result.verdict, result.swapped, result.confidence, result.probabilities} == {None}
    assert re.match(f"{OUTSIDE_SCOPE} .*choose another judge", result.error)
    row = stored.table_row(result)
    assert (row["outside_scope"], row["judged"], row["verdict_OA"]) == (True, False, None)
    assert load(tmp_path / result.trace).turns[-1].completion.text == reply


def test_what_the_judge_can_read_in_one_order_alone_is_judged_once(tmp_path: Path) -> None:
    (tmp_path / TRACES).mkdir()
    drawn = pair_of(7, 0)
    (videos,) = drawn_pairs(1, 7, tmp_path / "drawn", 112)
    read = (text for text, *_ in play_teacher(drawn, make_protocol(Settings(), "paired")))
    replies = iter([*read, answer("unread")])
    backend = ScriptedBackend(lambda _: next(replies), "paired", scope="drawn")
    pair = EvaluationPair("drawn", 1, videos.prompt, str(videos.first), str(videos.second))
    (result,) = judge_locally([pair], backend, Settings(swap="on"), tmp_path, 1)
    assert (result.judged, result.outside_scope) == (True, False)
    assert (result.verdict, result.order) == (drawn.verdict, None)
    second = load(tmp_path / result.trace).swapped
    assert (second.finished.outside_scope, second.last_labels is None) == (True, False)


def test_a_trace_that_went_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result says so, and names none."""
    pair = read_dataset("csv", write_table(tmp_path, 1))[0]
    (tmp_path / TRACES).write_text("No folder.")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (result,) = judge_locally([pair], scripted_judge(), Settings(), tmp_path, 1)
    assert (result.judged, result.trace) == (True, "")
    assert re.search("^The trace could not be saved as .*; it was saved as ", result.error)


def test_so_many_pairs_are_in_hand_and_pairs_are_taken_as_they_are_needed(tmp_path: Path) -> None:
    pairs, taken = some_pairs(tmp_path, 9), 0
    together = threading.Barrier(3)

    def reply(messages: object) -> str:
        together.wait(50)  # until three are asked at the same time
        return answer("")

    def given() -> Iterator[EvaluationPair]:
        nonlocal taken
        for pair in pairs:
            taken += 1
            yield pair

    results = judge_locally(given(), ScriptedBackend(reply), Settings(), tmp_path, 3)
    for ended, result in enumerate(results, start=1):
        assert result.judged, result.error
        assert taken <= ended + 3
    assert (ended, taken) == (9, 9)


@every_way
def test_once_cancelled_those_in_hand_end_as_cancelled(tmp_path: Path, batch: bool) -> None:
    pairs, results = some_pairs(tmp_path, 9), list[PairResult]()

    def stopped() -> bool:
        return len(results) >= 2

    how = {"backend": scripted_judge(batch=batch, pause=0.02), "settings": Settings(swap="on")}
    engine = partial(judge_locally, **how, out=tmp_path, concurrency=2, cancelled=stopped)  # type: ignore[arg-type]
    for result in judge_rows(pairs, engine, "scripted", tmp_path, {}, stopped):
        results.append(result)
    kept = list(stored.read_results(tmp_path / RESULTS))
    assert 2 <= len(kept) < 9
    assert all(result.judged and result.order for result in kept), "only whole runs are results"
