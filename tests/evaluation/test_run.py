"""An evaluation: each pair has one result, whatever was there before, and no folder holds two runs."""

from __future__ import annotations

import errno
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.evaluation.support.many_rows import evaluate_many, write_many
from tests.evaluation.support.scripted_runs import (
    made_pairs,
    made_result,
    made_results,
    run_description as describe,
)
from tests.support.file_limit import file_limit, open_file_limit
from vrthinker_core import __version__
from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation import job as jobs
from vrthinker_core.evaluation.job import Engine, judge_rows, open_out, results_so_far
from vrthinker_core.results import result as stored
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import RESULTS, PairResult, final_results, read_results
from vrthinker_core.types import Settings, Side, StopReason

PAIRS = made_pairs(6)
SHORT = Settings(max_turns=2)


def run(
    pairs: list[EvaluationPair],
    engine: Engine,
    out: Path,
    stopped: Callable[[], bool] = lambda: False,
) -> list[PairResult]:
    return list(judge_rows(pairs, engine, "scripted", out, results_so_far(pairs, out), stopped))


def failing(fault: str) -> Engine:
    return lambda pairs: (
        PairResult(pair, "scripted", error="It failed.", fault=fault) for pair in pairs
    )


def never(pairs: Iterable[EvaluationPair]) -> Iterator[PairResult]:
    assert not list(pairs), "nothing was left to judge"
    return iter(())


def test_a_result_is_on_the_disk_before_the_next_pair_is_judged(tmp_path: Path) -> None:
    seen = []
    for result in judge_rows(PAIRS, made_results, "scripted", tmp_path, {}):
        seen.append(result)
        assert list(read_results(tmp_path / RESULTS)) == seen
    assert [result.pair for result in seen] == PAIRS


def test_a_second_start_judges_what_is_left(tmp_path: Path) -> None:
    run(PAIRS[:4], made_results, tmp_path)
    assert [result.pair for result in run(PAIRS, made_results, tmp_path)] == PAIRS[4:]
    assert run(PAIRS, never, tmp_path) == []
    assert jobs.write_final_table(tmp_path, PAIRS) == [made_result(pair) for pair in PAIRS]
    assert jobs.write_final_table(tmp_path, PAIRS[2:]) == [made_result(pair) for pair in PAIRS[2:]]


def test_a_broken_row_and_one_left_out_have_results_and_are_not_judged(tmp_path: Path) -> None:
    gone, hard = replace(PAIRS[0], fault="There is no file a.mp4."), replace(PAIRS[1], left_out="H")
    pairs = [gone, hard, *PAIRS[2:]]
    results = {result.pair.row: result for result in run(pairs, made_results, tmp_path)}
    assert (results[1].fault, results[1].verdict) == (stored.ROW_FAULT, None)
    assert results[1].error == "There is no file a.mp4."
    assert (results[2].fault, results[2].judged) == (stored.LEFT_OUT, False)
    assert all(results[row].judged for row in (3, 4, 5, 6))
    assert run(pairs, never, tmp_path) == []
    again = run(PAIRS, made_results, tmp_path)
    assert [result.pair.row for result in again] == [1], "the row was mended: its file is there now"
    assert final_results(tmp_path / RESULTS)[0].judged


def test_what_is_transient_is_judged_again_and_what_lasts_is_not(tmp_path: Path) -> None:
    run(PAIRS[:2], failing("BackendFailed"), tmp_path)
    run(PAIRS[2:3], failing("ServerUnavailable"), tmp_path)
    run(PAIRS[3:], failing("BackendRefused"), tmp_path)
    assert [result.pair for result in run(PAIRS, made_results, tmp_path)] == PAIRS[:3]
    judged = [result.judged for result in final_results(tmp_path / RESULTS)]
    assert judged == [True] * 3 + [False] * 3


def test_an_unreadable_video_of_version_0_2_is_opened_again(tmp_path: Path) -> None:
    """It is not known whose it is."""
    run(PAIRS[:1], failing("VideoError"), tmp_path)
    (known,) = failing("VideoError")(PAIRS[1:2])
    run(PAIRS[1:2], lambda _: iter([replace(known, unreadable=(Side.SECOND,))]), tmp_path)
    kept = (tmp_path / RESULTS).read_text("utf-8").replace(',"unreadable":[]', "")
    (tmp_path / RESULTS).write_text(kept, "utf-8")
    assert [result.pair for result in run(PAIRS[:2], made_results, tmp_path)] == PAIRS[:1]
    assert "unreadable" not in kept.splitlines()[0]


def test_once_stopped_no_pair_is_begun_and_no_failure_of_the_end_is_kept(tmp_path: Path) -> None:
    seen: list[EvaluationPair] = []

    def engine(pairs: Iterable[EvaluationPair]) -> Iterator[PairResult]:
        for pair in pairs:
            seen.append(pair)
            stops = {2: StopReason.CANCELLED, 3: StopReason.FAILED}
            fault = "DecoderDied" if len(seen) == 3 else ""
            stop = stops.get(len(seen), StopReason.ANSWERED)
            yield replace(made_result(pair), stop=stop, fault=fault)

    results = run(PAIRS, engine, tmp_path, lambda: len(seen) >= 3)
    assert seen == PAIRS[:3]
    assert [result.pair.row for result in results if result.judged] == [1]
    assert [r.pair for r in run(PAIRS, made_results, tmp_path)] == PAIRS[1:]


def check_refused(match: str, out: Path, run: stored.EvaluationRun, *resumes: bool) -> None:
    for resume in resumes:
        with pytest.raises(BadInput, match=match), open_out(out, run, resume=resume):
            raise AssertionError


def test_another_run_is_refused_and_the_same_asks_for_resume(tmp_path: Path) -> None:
    out, mine = tmp_path / "out", describe(PAIRS)
    with open_out(out, describe(PAIRS, "refused"), resume=False):
        pass  # and nothing was judged
    with open_out(out, mine, resume=False):
        (out / RESULTS).touch()
    others = {
        "the data set": describe(PAIRS[1:]),
        "the judge scripted": describe(PAIRS, "nano"),
        "the settings max_turns left to the protocol": describe(PAIRS, settings=SHORT),
    }
    for difference, other in others.items():
        check_refused(f"holds another evaluation, with {difference}", out, other, False, True)
    check_refused("holds this evaluation already: go on with --resume", out, mine, False)
    with open_out(out, mine, resume=True):
        assert (out / stored.TRACES).is_dir()


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    check_refused("holds other files", tmp_path, describe(PAIRS), False, True)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    check_refused("Cannot write to", tmp_path / "thesis.txt", describe(PAIRS), False)


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(errno.EMFILE, "Too many")])
def test_an_error_of_the_judging_is_none_of_the_folder(tmp_path: Path, error: OSError) -> None:
    """A reader of the output who has left is none either."""

    def engine(pairs: Iterable[EvaluationPair]) -> Iterator[PairResult]:
        yield made_result(next(iter(pairs)))
        raise error

    with (
        pytest.raises(OSError) as told,
        open_out(tmp_path, describe(PAIRS), resume=False),
    ):
        run(PAIRS, engine, tmp_path)
    assert told.value is error
    assert [result.pair for result in read_results(tmp_path / RESULTS)] == PAIRS[:1]


def test_results_that_cannot_be_written_are_an_error_of_the_folder(tmp_path: Path) -> None:
    sentence = f"^Cannot write to {tmp_path}: "
    with file_limit(100), pytest.raises(BadInput, match=f"{sentence}File too large"):
        run(PAIRS, made_results, tmp_path)
    (tmp_path / stored.TABLE).mkdir()
    with pytest.raises(BadInput, match=sentence):
        jobs.write_final_table(tmp_path, PAIRS)


def test_two_runs_never_write_one_folder(tmp_path: Path) -> None:
    mine = describe(PAIRS)
    with open_out(tmp_path / "out", mine, resume=False):
        check_refused("Another process is writing", tmp_path / "out", mine, False, True)
    with open_out(tmp_path / "out", mine, resume=True):
        pass


def test_each_start_is_kept_beside_what_the_run_is(tmp_path: Path) -> None:
    job = jobs.EvaluationJob("scripted", Settings(seed=3), tmp_path / "out", 4)
    for resume in (False, True):
        with open_out(job.out, job.describe("csv", Path("p.csv"), PAIRS, 5), resume=resume):
            pass
    kept = stored.read_run(job.out)
    assert (kept.dataset, kept.judge, kept.settings.seed, kept.pairs) == ("csv", "scripted", 3, 6)
    starts = [(start.engine, start.concurrency, start.limit) for start in kept.starts]
    assert starts == [("local", 4, 5)] * 2
    assert {"python", "torch"} <= kept.starts[0].versions.keys()
    assert kept.starts[0].versions["vrthinker"] == __version__


def test_a_job_may_have_the_files_open_that_its_pairs_take(tmp_path: Path) -> None:
    with open_file_limit(256):
        jobs.EvaluationJob("nano", Settings(), tmp_path, 64)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 640


def test_a_row_takes_its_share_of_a_minute(tmp_path: Path) -> None:
    """A whole public data set is read, scheduled and summed up in the time its rows take, not in their square."""
    rows = 1000
    table = write_many(tmp_path, rows)
    evaluate_many(write_many(tmp_path / "warm", 10), tmp_path / "warm" / "out")
    began = time.process_time()
    results = evaluate_many(table, tmp_path / "out")
    assert time.process_time() - began < rows * 60 / 26_500  # The largest set in a minute
    assert [len(results), sum(each.judged for each in results)] == [rows, rows - rows // 100]


def test_a_sample_is_drawn_from_what_can_be_judged_and_is_always_the_same() -> None:
    pairs = [replace(pair, fault="Broken." if pair.row % 5 == 0 else "") for pair in made_pairs(50)]
    sample = jobs.take_sample(pairs, 12)
    assert sample == jobs.take_sample(list(reversed(pairs)), 12)
    assert len({pair.id for pair in sample}) == 12
    assert not any(pair.fault for pair in sample)
    assert len(jobs.take_sample(pairs, 99)) == 40


def test_an_estimate_scales_the_sample_and_its_spread_holds_the_truth() -> None:
    results = [replace(made_result(pair), turns=1 + pair.row % 3) for pair in made_pairs(30)]
    found = jobs.estimate(results, 3000, seconds=15.0)
    assert found.turns[0] < found.turns[1] < found.turns[2]
    assert found.turns[0] < 6000 < found.turns[2]
    assert found.prompt_tokens == pytest.approx((12_000_000,) * 3), "no spread"
    assert found.hours[1] == pytest.approx(3000 * 15 / 30 / 3600, rel=0.1)
    assert (found.sample, found.failed, found.pairs) == (30, 0, 3000)
    alone = jobs.estimate(results[:1], 10, seconds=5.0)
    assert alone.hours == pytest.approx((50 / 3600,) * 3)
