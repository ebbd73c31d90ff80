"""`rank`, end to end: a run that goes on, and videos that are gone."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.small_clips import write_clip
from tests.test_cli import call
from vrthinker_core.evaluation.rankings import all_pairs, rank_generators
from vrthinker_core.evaluation.video_table import read_videos
from vrthinker_core.results.result import RESULTS, TRACES, pairs_digest
from vrthinker_core.traces import load

Options = tuple[object, ...]
ANSWER = "<Snapshot>s</Snapshot><Think>t</Think><Answer>TA=0, MQ={}, VQ={}, OA={}</Answer>"


def as_written(folder: Path) -> Any:
    return json.loads((folder / "ranking.json").read_text("utf-8"))


@pytest.fixture(autouse=True)
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's 500 samples of the bootstrap take seconds."""
    ranking = partial(rank_generators, samples=20)
    monkeypatch.setattr("vrthinker_core.evaluation.rankings.rank_generators", ranking)


@pytest.fixture
def two_folders(tmp_path: Path) -> Path:
    """The folders of amber and elder, with two prompts."""
    folder = tmp_path / "videos"
    for name, hue in (("amber", 0), ("elder", 80)):
        (folder / name).mkdir(parents=True)
        for number in (0, 3):
            write_clip(folder / name / f"clip{number}.mp4", 8, 32, 32, hue)
    prompts = "video,prompt\nclip0,A cube.\nclip3,A ball.\nclip9,Nobody made it.\n"
    (folder / "prompts.csv").write_text(prompts, "utf-8")
    return folder


def as_table(folder: Path) -> Path:
    """The same videos as a CSV."""
    prompts = {"clip0": "A cube.", "clip3": "A ball."}
    ends = [(name, clip) for clip in prompts for name in ("amber", "elder")]
    rows = [f"{name},{prompts[clip]},{name}/{clip}.mp4" for name, clip in ends]
    (folder / "videos.csv").write_text("\n".join(["generator,prompt,video", *rows, ""]), "utf-8")
    return folder / "videos.csv"


def scripted(folder: Path, *labels: int) -> Options:
    """The options of a judge that always gives these labels, and of where its ranking goes."""
    (folder / "script.jsonl").write_text(json.dumps({"reply": ANSWER.format(*labels)}))
    return "--judge", f"scripted:{folder / 'script.jsonl'}", "--out", folder / "out"


@pytest.fixture
def ties(tmp_path: Path) -> Options:
    return scripted(tmp_path, 0, 0, 0)


def rank(*arguments: object) -> tuple[int, str, list[str]]:
    """Exit status, what was printed, and the lines on standard error."""
    status, printed, errors = call("rank", *arguments)
    return status, printed, errors.splitlines()


def test_a_run_goes_on_and_that_of_another_is_refused(two_folders: Path, tmp_path: Path) -> None:
    out, judge, table = tmp_path / "out", scripted(tmp_path, 1, 2, 1), as_table(two_folders)
    status, printed, _ = rank(table, *judge)
    assert (status, "2 pairs of 2 prompts judged by" in printed) == (0, True)
    wins = [row["all_pairs"]["wins"] for row in as_written(out)["dimensions"]["OA"]["strengths"]]
    assert sum(wins) == 2
    assert [load(path).finished is None for path in (out / TRACES).iterdir()] == [False] * 2
    report, results = ((out / name).read_bytes() for name in ("ranking.json", RESULTS))
    lines = results.splitlines(keepends=True)
    (out / RESULTS).write_bytes(lines[0] + lines[1][:40])
    status, _, errors = rank(table, *judge, "--resume")
    assert (status, errors) == (0, [])
    assert len((out / RESULTS).read_bytes().splitlines()) == 2
    assert (out / "ranking.json").read_bytes() == report
    other = table.with_name("other.csv")
    other.write_text(table.read_text("utf-8").replace("amber,", "third,"), "utf-8")
    before = (out / RESULTS).read_bytes()
    for arguments, sentence in (
        ((table,), "go on with --resume"),
        ((other, "--resume"), "another evaluation, with the data set"),
        ((table, "--resume", "--max-turns", "3"), "another evaluation, with the settings"),
    ):
        status, _, errors = rank(*arguments, *judge)
        assert (status, len(errors)) == (2, 1)
        assert sentence in errors[0]
    assert (out / RESULTS).read_bytes() == before


def test_a_generator_gains_nothing_by_a_video_that_cannot_be_read(
    two_folders: Path, tmp_path: Path, ties: Options
) -> None:
    (two_folders / "elder" / "clip0.mp4").write_bytes(b"no video at all")
    status, printed, errors = rank(two_folders, *ties, "--missing", "leave-out")
    found = as_written(tmp_path / "out")
    rows = {row["generator"]: row for row in found["dimensions"]["OA"]["strengths"]}
    assert status == 0
    assert (rows["amber"]["all_pairs"]["wins"], found["pairs"]) == (0, 1)
    assert rows["elder"]["without_video"] == 1
    told = "1 (no video of elder)"
    assert told in (tmp_path / "out" / "ranking.html").read_text("utf-8")
    assert told in " ".join(printed.split())
    assert any("clip0" in line for line in errors)


def test_a_run_of_version_0_2_goes_on(two_folders: Path, tmp_path: Path, ties: Options) -> None:
    """It judged no pair of a missing video, and knew nothing of them."""
    (two_folders / "elder" / "clip3.mp4").unlink()
    assert rank(two_folders, *ties)[0] == 0
    run, results = tmp_path / "out" / "run.json", tmp_path / "out" / RESULTS
    pairs = all_pairs(replace(read_videos(two_folders), missing={}))
    digest = f'"digest": "{pairs_digest(pairs)}"'
    run.write_text(re.sub(r'"digest": "\w+"', digest, run.read_text("utf-8")), "utf-8")

    def judged() -> list[str]:
        return [line for line in results.read_text("utf-8").splitlines() if "Broken" not in line]

    (line,) = judged()
    old = line.replace(',"unreadable":[]', "")
    results.write_text(f"{old}\n", "utf-8")
    status, printed, _ = rank(two_folders, *ties, "--resume")
    assert (status, "1 (elder)" in printed, judged()) == (0, True, [old])
