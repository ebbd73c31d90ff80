"""The file of results: whole lines only, the last one of a pair counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.evaluation.support.scripted_runs import made_pairs, made_result, run_description
from vrthinker_core.errors import BadInput
from vrthinker_core.results import result as module
from vrthinker_core.results.result import PairResult, final_results, read_results, read_run, to_line
from vrthinker_core.types import Dimension, Preference, StopReason, Verdict

PAIRS = made_pairs(5)
RESULTS = [made_result(pair) for pair in PAIRS]


def write(path: Path, results: list[PairResult]) -> None:
    with module.ResultFile(path) as file:
        for result in results:
            file.add(result)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    told = dict.fromkeys(Dimension, (0.25, 0.5, 0.125))
    swapped = Verdict(OA=Preference.TIE)
    more = replace(RESULTS[0], probabilities=told, swapped=swapped, confidence=None)
    results = [*RESULTS, more]
    write(path, results)
    assert list(read_results(path)) == results


def test_of_several_lines_the_last_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    again = replace(RESULTS[1], turns=7)
    write(path, [RESULTS[2], RESULTS[1], RESULTS[0], again])
    assert final_results(path) == [RESULTS[0], again, RESULTS[2]]


@pytest.mark.parametrize("line", [b"{}\n", b"nothing\n", b"\n", b'{"format": "another/1"}\n'])
def test_what_is_no_result_is_named_with_its_line(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(to_line(RESULTS[0]) + line)
    with pytest.raises(BadInput, match=r"^Line 2 of results\.jsonl is no result of an eval"):
        list(read_results(path))


PASSING = "BackendFailed ServerUnavailable DecoderDied VideoUnavailable ConnectionResetError JudgeError describe"
LASTING = "BackendRefused ContextFull TooManyPictures RequestRefused TraceError VideoError BadInput MemoryError CheckpointError"


def test_which_failures_are_transient() -> None:
    def again(fault: str) -> bool:
        return PairResult(PAIRS[0], "judge", StopReason.FAILED, fault=fault).is_transient

    assert [fault for fault in PASSING.split() if not again(fault)] == []
    assert PairResult(PAIRS[0], "judge", StopReason.CANCELLED).is_transient
    lasting = [*LASTING.split(), module.ROW_FAULT, module.LEFT_OUT, module.OUTSIDE_FAULT, ""]
    assert [fault for fault in lasting if again(fault)] == []


def test_the_table_is_flat_and_holds_every_result(tmp_path: Path) -> None:
    from pyarrow import parquet

    broken = module.broken_row(replace(PAIRS[3], fault="The prompt is empty."), "judge")
    left_out = module.broken_row(replace(PAIRS[4], left_out="Hard to judge."), "judge")
    shares, swapped = {Dimension.OA: (0.1, 0.7, 0.2)}, Verdict(OA=Preference.TIE)
    told = replace(RESULTS[0], probabilities=shares, swapped=swapped)
    module.write_table(results := [told, *RESULTS[1:3], broken, left_out], tmp_path / module.TABLE)
    rows = parquet.read_table(tmp_path / module.TABLE).to_pylist()
    for row, result in zip(rows, results, strict=True):
        assert {name: row[name] for name in module.table_row(result)} == module.table_row(result)
        assert all(not isinstance(value, list | dict) for value in row.values())
    first = [rows[0][name] for name in ("label_OA", "swapped_OA", "p_OA_1", "p_TA_1")]
    assert first == [1, 0, 0.7, None]
    flags = [(row["judged"], row["left_out"], row["fault"]) for row in rows[3:]]
    assert flags == [(False, False, module.ROW_FAULT), (False, True, module.LEFT_OUT)]
    assert rows[3]["error"] == "The prompt is empty."
    assert rows[3]["verdict_OA"] is None, "a broken row is no tie"
    module.write_table([], tmp_path / module.TABLE)
    names = parquet.read_schema(tmp_path / module.TABLE).names
    assert set(names) == set(module.table_row(RESULTS[0]))


def test_a_run_is_the_same_whatever_the_order_and_place_of_its_pairs(tmp_path: Path) -> None:
    run = run_description(PAIRS)
    module.write_run(tmp_path, run)
    assert read_run(tmp_path) == run
    moved = [replace(pair, first=f"/elsewhere/{pair.first}", row=9, fault="gone") for pair in PAIRS]
    assert not run.difference(run_description(moved[::-1]))
    relabelled = replace(PAIRS[0], labels=Verdict(TA=Preference.TIE))
    others = {module.pairs_digest(pairs) for pairs in (PAIRS[1:], [relabelled, *PAIRS[1:]])}
    assert run.digest not in others


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no evaluation"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(BadInput, match="describes no evaluation that is known here"):
        read_run(tmp_path)
