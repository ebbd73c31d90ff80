"""The engine of this process: a result for each pair, in threads and in batches, whatever becomes of the others."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.support.scripted_runs import (
    BatchScript,
    answer,
    scripted_judge,
    write_table,
)
from tests.support.drawn_pairs import drawn_pairs
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.dialects import make_dialect
from vrthinker_core.errors import BackendRefused, ServerUnavailable
from vrthinker_core.evaluation.engines.local import judge_locally, judge_pair
from vrthinker_core.evaluation.run import evaluate
from vrthinker_core.results.datasets import read_dataset
from vrthinker_core.results.pair import EvaluationPair
from vrthinker_core.results.result import PairResult
from vrthinker_core.results.result_file import RESULTS, TRACES, read_results, to_line
from vrthinker_core.results.result_table import table_row
from vrthinker_core.traces import load
from vrthinker_core.training.drawn_teacher.replies import play_teacher
from vrthinker_core.training.drawn_world.world import draw_pair
from vrthinker_core.types import Settings, Side, StopReason
from vrthinker_core.types.wording import OUTSIDE_SCOPE
from vrthinker_core.video import DecoderPool
from vrthinker_core.video.processes.process import Worker


@pytest.mark.parametrize("batch", [False, True], ids=["threads", "batch"])
def test_pairs_that_fail_take_no_other_with_them(tmp_path: Path, batch: bool) -> None:
    pairs = read_dataset("csv", write_table(tmp_path, 6))
    (tmp_path / "text.mp4").write_text("no video at all")
    (tmp_path / TRACES).mkdir()
    pairs[1] = replace(pairs[1], prompt="The judge fails here.")
    pairs[2] = replace(pairs[2], prompt="This is refused.")
    pairs[3] = replace(pairs[3], second=str(tmp_path / "text.mp4"))
    pairs[4] = replace(pairs[4], first=str(tmp_path / "gone meanwhile.mp4"))
    engine = partial(
        judge_locally,
        backend=scripted_judge(batch=batch),
        settings=Settings(),
        out=tmp_path,
        concurrency=2,
    )
    results = {result.pair.row: result for result in engine(iter(pairs))}
    assert {row: result.fault for row, result in results.items()} == {
        1: "",
        2: "BackendFailed",
        3: "BackendRefused",
        4: "VideoError",
        5: "VideoError",
        6: "",
    }
    assert [results[row].is_transient for row in (2, 3, 4)] == [True, False, False]
    assert [results[row].unreadable for row in (1, 2, 4, 5)] == [
        (),
        (),
        (Side.SECOND,),
        (Side.FIRST,),
    ]
    for row in (1, 6):
        trace = load(tmp_path / results[row].trace)
        assert trace.finished
        assert trace.finished.verdict == results[row].verdict
        assert results[row].turns == 1
        assert results[row].clip_seconds == pytest.approx((1 / 3, 1 / 3))


def test_both_videos_may_be_unreadable_and_one_that_may_be_read_later_is_not(
    tmp_path: Path,
) -> None:
    pair = read_dataset("csv", write_table(tmp_path, 1))[0]
    (tmp_path / "empty.mp4").touch()
    neither = replace(pair, first=str(tmp_path / "gone.mp4"), second=str(tmp_path / "empty.mp4"))
    assert judge_pair(neither, scripted_judge(), Settings(), tmp_path).unreadable == (
        Side.FIRST,
        Side.SECOND,
    )
    result = judge_pair(
        replace(pair, second="/proc/self/mem"), scripted_judge(), Settings(), tmp_path
    )
    assert (result.fault, result.unreadable) == ("VideoUnavailable", ())


class WatchedPool(DecoderPool):
    """Knows its worker processes."""

    def __init__(self) -> None:
        super().__init__()
        self.workers: list[int] = []

    def start_worker(self) -> Worker:
        worker = super().start_worker()
        self.workers.append(worker.process.pid)
        return worker

    def kill(self, video: Path) -> None:
        """Kill the process that decodes a video."""
        for pid in self.workers:
            if any(
                file.is_symlink() and file.readlink() == video
                for file in Path(f"/proc/{pid}/fd").iterdir()
            ):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("swap", ["off", "on"])
@pytest.mark.parametrize("side", Side)
def test_a_video_that_breaks_in_the_middle_is_known_by_its_own_side(
    tmp_path: Path, side: Side, swap: Any
) -> None:
    pair = read_dataset("csv", write_table(tmp_path, 1))[0]
    (tmp_path / TRACES).mkdir()
    call = '<Think>t</Think><tool_call>{"name": "select_frames", "arguments": {"frame_indices": [10, 30]}}</tool_call>'
    replies = ([answer("")] if swap == "on" else []) + [call]
    with WatchedPool() as pool:

        def reply(_: object) -> str:
            if len(replies) == 1:
                pool.kill(Path(pair.first if side is Side.FIRST else pair.second))
            return replies.pop(0)

        result = judge_pair(
            pair,
            ScriptedBackend(reply, protocol="paired"),
            Settings(swap=swap),
            tmp_path,
            pool=pool,
        )
    assert (result.fault, result.unreadable, replies) == ("DecoderDied", (side,), [])


def test_threads_and_batch_give_the_same_results_in_both_orders(tmp_path: Path) -> None:
    pairs = read_dataset("csv", write_table(tmp_path, 4))
    (tmp_path / TRACES).mkdir()
    found = []
    for batch in (False, True):
        engine = partial(
            judge_locally,
            backend=scripted_judge(batch=batch),
            settings=Settings(swap="on"),
            out=tmp_path,
            concurrency=3,
        )
        found.append(
            sorted(
                (replace(result, seconds=0.0) for result in engine(pairs)),
                key=lambda result: result.pair.row,
            )
        )
    assert found[0] == found[1]
    assert all(result.order for result in found[0])


@pytest.mark.parametrize("batch", [False, True], ids=["threads", "batch"])
def test_a_pair_without_a_verdict_has_its_result_in_both_orders_too(
    tmp_path: Path, batch: bool
) -> None:
    pairs = read_dataset("csv", write_table(tmp_path, 3))
    (tmp_path / TRACES).mkdir()
    pairs[1] = replace(pairs[1], prompt="This is refused.")
    results = judge_locally(
        pairs, scripted_judge(batch=batch), Settings(swap="on"), tmp_path, concurrency=2
    )
    assert {result.pair.row: result.order is not None for result in results} == {
        1: True,
        2: False,
        3: True,
    }


def test_a_second_order_that_failed_is_told_and_judged_again_where_it_is_transient(
    tmp_path: Path,
) -> None:
    pairs = read_dataset("csv", write_table(tmp_path, 2))
    (tmp_path / TRACES).mkdir()
    replies = iter(
        [
            answer(""),
            ServerUnavailable("The server is gone."),
            answer(""),
            BackendRefused("It will not."),
        ]
    )
    backend = ScriptedBackend(lambda _: next(replies))
    gone, refused = judge_locally(pairs, backend, Settings(swap="on"), tmp_path, 1)
    assert (gone.judged, gone.is_transient, gone.error) == (
        False,
        True,
        "In the second order: The server is gone.",
    )
    assert (refused.judged, refused.order, refused.error) == (
        True,
        None,
        "In the second order: It will not.",
    )


@pytest.mark.parametrize("batch", [False, True], ids=["threads", "batch"])
@pytest.mark.parametrize("reply", [answer("real"), "I cannot say."], ids=["answered", "no answer"])
def test_a_pair_outside_the_judges_scope_has_failed_for_good_and_has_no_label(
    tmp_path: Path, batch: bool, reply: str
) -> None:
    """Whatever it wrote of clips that this project did not draw; its words stay in the trace."""
    (tmp_path / TRACES).mkdir()
    backend = (BatchScript if batch else ScriptedBackend)([reply], "paired", scope="drawn")
    (pair,) = read_dataset("csv", write_table(tmp_path, 1))
    (result,) = judge_locally([pair], backend, Settings(swap="on"), tmp_path, 1)
    assert (result.outside_scope, result.judged, result.has_verdict, result.is_transient) == (
        True,
        False,
        False,
        False,
    )
    assert result.stop is (StopReason.ANSWERED if "Answer" in reply else StopReason.NO_ANSWER)
    assert (result.verdict, result.swapped, result.confidence, result.probabilities) == (
        None,
        None,
        None,
        None,
    )
    assert re.match(f"{OUTSIDE_SCOPE} Choose another judge", result.error)
    row = table_row(result)
    assert (row["outside_scope"], row["judged"]) == (True, False)
    assert {
        value for name, value in row.items() if name.startswith(("verdict_", "swapped_", "p_"))
    } == {None}
    assert b'"outside_scope":true' in to_line(result)
    assert load(tmp_path / result.trace).turns[-1].completion.text == reply


def test_what_the_judge_can_read_in_one_order_alone_is_judged_once(tmp_path: Path) -> None:
    (tmp_path / TRACES).mkdir()
    drawn = draw_pair(7)
    (videos,) = drawn_pairs(1, 7, tmp_path / "drawn", 112)
    read = (text for text, *_ in play_teacher(drawn, make_dialect(Settings(), "paired")))
    replies = iter([*read, answer("unread")])
    backend = ScriptedBackend(lambda _: next(replies), "paired", scope="drawn")
    pair = EvaluationPair("drawn", 1, videos.prompt, str(videos.first), str(videos.second))
    (result,) = judge_locally([pair], backend, Settings(swap="on"), tmp_path, 1)
    assert (result.judged, result.outside_scope, result.verdict, result.order) == (
        True,
        False,
        drawn.verdict,
        None,
    )
    second = load(tmp_path / result.trace).swapped
    assert second is not None
    assert second.finished is not None
    assert (second.finished.outside_scope, second.last_labels is None) == (True, False)


def test_a_result_whose_trace_went_elsewhere_says_so_and_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = read_dataset("csv", write_table(tmp_path, 1))[0]
    (tmp_path / TRACES).write_text("No folder.")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (result,) = judge_locally([pair], scripted_judge(), Settings(), tmp_path, 1)
    assert (result.judged, result.trace) == (True, "")
    assert re.search(
        "^The trace could not be saved as .*; it was saved as .*trace.json instead", result.error
    )


def test_so_many_pairs_are_in_hand_and_pairs_are_taken_as_they_are_needed(tmp_path: Path) -> None:
    pairs, taken = read_dataset("csv", write_table(tmp_path, 9)), 0
    (tmp_path / TRACES).mkdir()
    together = threading.Barrier(3)

    def reply(messages: object) -> str:
        together.wait(60)  # until three are asked at the same time
        return answer("")

    def given() -> Iterator[EvaluationPair]:
        nonlocal taken
        for pair in pairs:
            taken += 1
            yield pair

    for ended, result in enumerate(
        judge_locally(given(), ScriptedBackend(reply), Settings(), tmp_path, 3), start=1
    ):
        assert result.judged, result.error
        assert taken <= ended + 3
    assert (ended, taken) == (9, 9)


@pytest.mark.parametrize("batch", [False, True], ids=["threads", "batch"])
def test_once_cancelled_those_in_hand_end_as_cancelled(tmp_path: Path, batch: bool) -> None:
    pairs, results = read_dataset("csv", write_table(tmp_path, 9)), list[PairResult]()
    (tmp_path / TRACES).mkdir()

    def stopped() -> bool:
        return len(results) >= 2

    backend = scripted_judge(batch=batch, pause=0.02)
    engine = partial(
        judge_locally,
        backend=backend,
        settings=Settings(swap="on"),
        out=tmp_path,
        concurrency=2,
        cancelled=stopped,
    )
    for result in evaluate(pairs, engine, "scripted", tmp_path, {}, stopped):
        results.append(result)
    kept = list(read_results(tmp_path / RESULTS))
    assert 2 <= len(kept) < 9
    assert all(result.judged and result.order for result in kept), (
        "what was broken off is not kept as a result"
    )
