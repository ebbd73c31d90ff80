"""`rank`, end to end: five generators of known flaw rates and a planted cycle, videos that are gone, bad input."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.test_reward import redness
from tests.support.small_clips import write_clip
from tests.test_cli import call
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.evaluation.local_engine import judge_locally
from vrthinker_core.evaluation.ranking_page import write_report
from vrthinker_core.evaluation.rankings import rank_generators
from vrthinker_core.evaluation.schedule import all_pairs, judge_pairs
from vrthinker_core.evaluation.video_table import VideoTable, read_videos
from vrthinker_core.results.result import RESULTS, TRACES, pairs_digest
from vrthinker_core.traces import load
from vrthinker_core.types import Settings, Side
from vrthinker_core.types.messages import Message

FLAWED = {"amber": 0, "birch": 1, "cedar": 2, "daisy": 3, "elder": 4}  # Videos with a flaw, of five
HUES = {
    (name, flawed): 30 * place + 15 * flawed
    for place, name in enumerate(FLAWED)
    for flawed in (False, True)
}
ROUND_ROBIN = ("amber", "cedar", "elder")  # In motion quality each of them beats the next one
Options = tuple[object, ...]
ANSWER = "<Snapshot>s</Snapshot><Think>t</Think><Answer>TA=0, MQ={}, VQ={}, OA={}</Answer>"


@pytest.fixture(scope="module")
def generators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of five generators and five prompts; a clip's colour says who made it, and whether it has a flaw."""
    folder = tmp_path_factory.mktemp("generators")
    for (name, flawed), hue in HUES.items():
        (folder / name).mkdir(exist_ok=True)
        clip = write_clip(folder / "clip.mp4", 12, 48, 32, hue)
        for number in range(5):
            # Spread over the prompts, so that no prompt is the hard one for all
            if (number * 2 + list(FLAWED).index(name)) % 5 < FLAWED[name] if flawed else True:
                shutil.copy(clip, folder / name / f"clip{number}.mp4")
        clip.unlink()
    rows = [f"clip{number},Prompt number {number}." for number in range(5)]
    (folder / "prompts.csv").write_text("\n".join(("video,prompt", *rows)) + "\n", "utf-8")
    return folder


def made_by(messages: Sequence[Message], side: Side) -> tuple[str, bool]:
    """Who made the video of a side, and whether it has a flaw: read off its first frame."""
    red = redness(messages, side) - 40
    return min(HUES, key=lambda key: abs(HUES[key] - red))


def truth(messages: Sequence[Message]) -> str:
    """A judge that knows the truth."""
    (first, flawed), (second, other) = (made_by(messages, side) for side in Side)
    quality = 0 if flawed == other else 2 if flawed else 1
    motion = 0
    if first in ROUND_ROBIN and second in ROUND_ROBIN:
        motion = 1 if ROUND_ROBIN[ROUND_ROBIN.index(first) - 2] == second else 2
    return ANSWER.format(motion, quality, quality)


def ranked(folder: Path, table: VideoTable) -> dict[str, Any]:
    """The ranking as it is written."""
    backend = ScriptedBackend(truth, protocol="paired")
    how = {"backend": backend, "settings": Settings(), "out": folder, "concurrency": 8}
    (folder / TRACES).mkdir(parents=True)
    results = list(judge_pairs(table, partial(judge_locally, **how), "truth", folder))  # type: ignore[arg-type]
    write_report(rank_generators(table, results, "truth", samples=40), folder)
    return as_written(folder)


def as_written(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "ranking.json").read_text("utf-8"))
    return found


def order_of(found: dict[str, Any], dimension: str) -> list[str]:
    return [row["generator"] for row in found["dimensions"][dimension]["strengths"]]


def test_generators_are_ordered_and_a_planted_cycle_is_found(
    generators: Path, tmp_path: Path
) -> None:
    table = read_videos(generators)
    found = ranked(tmp_path, table)
    assert found["pairs"] == 50
    assert found["failed"] == []
    assert order_of(found, "OA") == order_of(found, "VQ") == list(FLAWED)
    best, last = (found["dimensions"]["OA"]["strengths"][place] for place in (0, -1))
    assert best["interval"][0] > last["interval"][1]
    assert found["dimensions"]["OA"]["cycles"] == found["dimensions"]["VQ"]["cycles"] == []
    assert found["dimensions"]["MQ"]["cycles"] == [{"generators": list(ROUND_ROBIN), "share": 1.0}]
    for prompt in found["best_of"]:
        clean = [name for name in FLAWED if prompt["rates"][name] == max(prompt["rates"].values())]
        assert prompt["best"] == clean
        assert "amber" in clean
    traces = list((tmp_path / "traces").glob("*.json"))
    assert len(traces) == 50
    assert load(traces[0]).finished is not None
    page = (tmp_path / "ranking.html").read_text("utf-8")
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", page), "it asks for nothing"
    assert page.count("<svg") == 8, "bars and matrix, in four dimensions"
    assert "amber beats cedar beats elder beats amber" in page
    assert "Best of each prompt" in page
    assert "amber against elder: 4 won, 1 tied, 0 lost" in page


@pytest.fixture(autouse=True)
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's 500 samples of the bootstrap take seconds."""
    ranking = partial(rank_generators, samples=20)
    monkeypatch.setattr("vrthinker_core.evaluation.rankings.rank_generators", ranking)


@pytest.fixture
def two_folders(generators: Path, tmp_path: Path) -> Path:
    """The folders of amber and elder, with two prompts; in one of these, elder has a flaw."""
    for name in ("amber", "elder"):
        (tmp_path / "videos" / name).mkdir(parents=True)
        for number in (0, 3):
            shutil.copy(generators / name / f"clip{number}.mp4", tmp_path / "videos" / name)
    (tmp_path / "videos" / "prompts.csv").write_text(
        "video,prompt\nclip0,A cube.\nclip3,A ball.\nclip9,Nobody made it.\n", "utf-8"
    )
    return tmp_path / "videos"


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


def test_equals_have_no_minus_nought(two_folders: Path, tmp_path: Path, ties: Options) -> None:
    shutil.copytree(two_folders / "amber", two_folders / "third")
    status, printed, _ = rank(two_folders, *ties)
    assert status == 0
    assert printed.count("+0.00") >= 3
    assert "-0.00" not in printed
    assert "-0.00" not in (tmp_path / "out" / "ranking.html").read_text("utf-8")


def test_bad_input_is_one_sentence(two_folders: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    table = as_table(two_folders)
    for arguments, sentence in (
        ((tmp_path / "no",), "There is no folder or CSV"),
        ((table, "--budget", "0"), "it takes at least 1"),
        ((table, "--out", tmp_path / "file"), "Cannot write to"),
    ):
        status, _, errors = rank(*arguments, "--judge", "nano")
        assert (status, len(errors)) == (2, 1)
        assert sentence in errors[0]


@pytest.mark.parametrize(
    ("how", "layout", "clip", "more"),
    [
        ("missing", "folder", "clip0", "--missing leave-out"),
        ("missing", "CSV", "clip3", "--swap"),
        ("broken", "folder", "clip3", ""),
        ("broken", "CSV", "clip0", "--missing leave-out --swap"),
    ],
)
def test_a_generator_gains_nothing_by_a_video_that_cannot_be_read(
    how: str, layout: str, clip: str, more: str,
    two_folders: Path, tmp_path: Path, ties: Options,
) -> None:  # fmt: skip
    videos = two_folders if layout == "folder" else as_table(two_folders)
    file = two_folders / "elder" / f"{clip}.mp4"
    file.unlink()
    if how == "broken":
        file.write_bytes(b"no video at all")
    status, printed, errors = rank(videos, *ties, *more.split())
    found = as_written(tmp_path / "out")
    rows = {row["generator"]: row for row in found["dimensions"]["OA"]["strengths"]}
    lost = "leave-out" not in more
    assert status == 0
    cells = [rows[name]["all_pairs"] for name in ("amber", "elder")]
    assert [(each["wins"], each["losses"]) for each in cells] == [(int(lost), 0), (0, int(lost))]
    assert (rows["amber"]["without_video"], rows["elder"]["without_video"]) == (0, 1)
    assert found["pairs"] == rows["amber"]["all_pairs"]["ties"] == 1
    assert ("no video of elder" in found["uncounted"]) is not lost
    assert "no video" in printed
    told = "1 (elder)" if lost else "1 (no video of elder)"
    assert told in (tmp_path / "out" / "ranking.html").read_text("utf-8")
    assert told in " ".join(printed.split())
    assert any(clip in line or "elder" in line or "Row" in line for line in errors)


def test_a_video_that_came_back_is_judged(two_folders: Path, tmp_path: Path, ties: Options) -> None:
    file = two_folders / "elder" / "clip0.mp4"
    kept = file.read_bytes()
    file.unlink()
    assert rank(two_folders, *ties)[0] == 0
    file.write_bytes(kept)
    status, printed, _ = rank(two_folders, *ties, "--resume")
    assert (status, "2 pairs of 2 prompts judged" in printed) == (0, True)
    results = map(json.loads, (tmp_path / "out" / RESULTS).read_text("utf-8").splitlines())
    judged = [(result["pair"]["prompt"], not result["fault"]) for result in results]
    gone = [("A cube.", False), ("Nobody made it.", False)]
    assert judged == [*gone, ("A ball.", True), ("A cube.", True)]


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
