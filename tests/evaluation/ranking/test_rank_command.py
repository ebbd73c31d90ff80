"""`rank`, end to end: five generators of known flaw rates and a planted cycle, real clips and the built-in judge, bad input."""

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

from tests.evaluation.reports.test_html import element_names
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

EXAMPLES = Path(__file__).resolve().parents[3] / "assets" / "examples"
FLAWED = {"amber": 0, "birch": 1, "cedar": 2, "daisy": 3, "elder": 4}  # Videos with a flaw, of five
HUES = {
    (name, flawed): 30 * place + 15 * flawed
    for place, name in enumerate(FLAWED)
    for flawed in (False, True)
}
ROUND_ROBIN = ("amber", "cedar", "elder")  # In motion quality each of them beats the next one
ANSWER = "<Snapshot>s</Snapshot><Think>t</Think><Answer>TA=0, MQ={}, VQ={}, OA={}</Answer>"


@pytest.fixture(scope="module")
def generators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of five generators and five prompts; a clip's colour says who made it, and whether it has a flaw."""
    folder = tmp_path_factory.mktemp("generators")
    for (name, flawed), hue in HUES.items():
        (folder / name).mkdir(exist_ok=True)
        clip = write_clip(folder / "clip.mp4", frames=12, hue=hue)
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
    write_report(rank_generators(table, results, "truth", samples=100), folder)
    written: dict[str, Any] = json.loads((folder / "ranking.json").read_text("utf-8"))
    return written


def order_of(found: dict[str, Any], dimension: str) -> list[str]:
    return [row["generator"] for row in found["dimensions"][dimension]["strengths"]]


def test_generators_of_known_flaw_rates_are_ordered_rightly_and_a_planted_cycle_is_found(
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
    assert len(list((tmp_path / "traces").glob("*.json"))) == 50
    assert load(next((tmp_path / "traces").glob("*.json"))).finished is not None
    check_page((tmp_path / "ranking.html").read_text("utf-8"))


def check_page(page: str) -> None:
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", page), "it asks for nothing"
    assert element_names(page).count("svg") == 8, "bars and matrix, in four dimensions"
    for text in (
        "amber beats cedar beats elder beats amber",
        "Best of each prompt",
        "amber against elder: 4 won, 1 tied, 0 lost",
    ):
        assert text in page


@pytest.fixture
def two_generators(tmp_path: Path) -> Path:
    """Drawn clips: the videos 1 and the videos 2 of two examples."""
    rows = ["generator,prompt,video"]
    for example in ("think-1-what-four-frames-do-not-show", "think-2-one-colour-in-the-prompt"):
        prompt = load(EXAMPLES / example / "trace.json").started.prompt
        rows += [
            f'{name},"{prompt}",{EXAMPLES / example / name}.mp4' for name in ("first", "second")
        ]
    (tmp_path / "videos.csv").write_text("\n".join(rows) + "\n", "utf-8")
    return tmp_path / "videos.csv"


@pytest.fixture
def ties(tmp_path: Path) -> tuple[object, ...]:
    """The options of a judge that always says tie, and of where its ranking goes."""
    (tmp_path / "script.jsonl").write_text(json.dumps({"reply": ANSWER.format(0, 0, 0)}))
    return "--judge", f"scripted:{tmp_path / 'script.jsonl'}", "--out", tmp_path / "out"


def rank(*arguments: object) -> tuple[int, str, list[str]]:
    """Exit status, what was printed, and the lines on standard error."""
    status, printed, errors = call("rank", *arguments)
    return status, printed, errors.splitlines()


def test_the_command_ranks_drawn_clips_with_the_built_in_judge(
    two_generators: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    status, printed, _ = rank(two_generators, "--judge", "nano", "--max-turns", 1, "--out", out)
    assert status == 0
    assert "2 pairs of 2 prompts judged by nano (built in)." in printed
    found = json.loads((out / "ranking.json").read_text("utf-8"))
    wins = [row["all_pairs"]["wins"] for row in found["dimensions"]["OA"]["strengths"]]
    results = map(json.loads, (out / RESULTS).read_text("utf-8").splitlines())
    assert sum(wins) == sum(result["verdict"]["OA"] != 0 for result in results)


def test_a_run_goes_on_and_a_folder_of_another_run_is_refused(
    two_generators: Path, tmp_path: Path
) -> None:
    out, script = tmp_path / "out", tmp_path / "script.jsonl"
    script.write_text(json.dumps({"reply": ANSWER.format(1, 2, 1)}))
    judge = ("--judge", f"scripted:{script}", "--out", out)
    assert rank(two_generators, *judge)[0] == 0
    report, results = ((out / name).read_bytes() for name in ("ranking.json", RESULTS))
    lines = results.splitlines(keepends=True)
    (out / RESULTS).write_bytes(lines[0] + lines[1][:40])
    status, _, errors = rank(two_generators, *judge, "--resume")
    assert (status, errors) == (0, [])
    assert len((out / RESULTS).read_bytes().splitlines()) == 2
    assert (out / "ranking.json").read_bytes() == report
    other = tmp_path / "other.csv"
    other.write_text(two_generators.read_text("utf-8").replace("first,", "third,"), "utf-8")
    before = (out / RESULTS).read_bytes()
    for arguments, sentence in (
        ((two_generators,), "go on with --resume"),
        ((other, "--resume"), "another evaluation, with the data set"),
        ((two_generators, "--resume", "--max-turns", "3"), "another evaluation, with the settings"),
    ):
        status, _, errors = rank(*arguments, *judge)
        assert (status, len(errors)) == (2, 1)
        assert sentence in errors[0]
    assert (out / RESULTS).read_bytes() == before


def test_equal_generators_have_no_minus_nought(
    two_generators: Path, tmp_path: Path, ties: tuple[object, ...]
) -> None:
    table = two_generators.read_text("utf-8")
    firsts = [line for line in table.splitlines(keepends=True) if "first," in line]
    third = "".join(firsts).replace("first,", "third,")
    two_generators.write_text(table + third, "utf-8")
    status, printed, _ = rank(two_generators, *ties)
    assert status == 0
    assert printed.count("+0.00") >= 3
    assert "-0.00" not in printed
    assert "-0.00" not in (tmp_path / "out" / "ranking.html").read_text("utf-8")


def test_bad_input_is_one_sentence(two_generators: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for arguments, sentence in (
        ((tmp_path / "no",), "There is no folder or CSV"),
        ((two_generators, "--budget", "0"), "it takes at least 1"),
        ((two_generators, "--out", tmp_path / "file"), "Cannot write to"),
    ):
        status, _, errors = rank(*arguments, "--judge", "nano")
        assert (status, len(errors)) == (2, 1)
        assert sentence in errors[0]


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
    rows = [
        f"{name},{prompts[clip]},{name}/{clip}.mp4"
        for clip in prompts
        for name in ("amber", "elder")
    ]
    (folder / "videos.csv").write_text("\n".join(["generator,prompt,video", *rows, ""]), "utf-8")
    return folder / "videos.csv"


LOST = [
    ("missing", "folder", "clip0"),
    ("missing", "CSV", "clip3"),
    ("broken", "folder", "clip3"),
    ("broken", "CSV", "clip0"),
]


@pytest.mark.parametrize(("how", "layout", "clip"), LOST, ids=str)
@pytest.mark.parametrize("more", ["", "--missing leave-out", "--swap"])
def test_a_generator_gains_nothing_by_a_video_that_cannot_be_read(
    how: str, layout: str, clip: str, more: str,
    two_folders: Path, tmp_path: Path, ties: tuple[object, ...],
) -> None:  # fmt: skip
    videos = two_folders if layout == "folder" else as_table(two_folders)
    (two_folders / "elder" / f"{clip}.mp4").unlink()
    if how == "broken":
        (two_folders / "elder" / f"{clip}.mp4").write_bytes(b"no video at all")
    status, printed, errors = rank(videos, *ties, *more.split())
    found = json.loads((tmp_path / "out" / "ranking.json").read_text("utf-8"))
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


def test_a_video_that_is_there_again_is_judged_on_resume(
    two_folders: Path, tmp_path: Path, ties: tuple[object, ...]
) -> None:
    file = two_folders / "elder" / "clip0.mp4"
    kept = file.read_bytes()
    file.unlink()
    assert rank(two_folders, *ties)[0] == 0
    file.write_bytes(kept)
    status, printed, _ = rank(two_folders, *ties, "--resume")
    assert (status, "2 pairs of 2 prompts judged" in printed) == (0, True)
    results = map(json.loads, (tmp_path / "out" / RESULTS).read_text("utf-8").splitlines())
    assert [(result["pair"]["prompt"], bool(result["fault"])) for result in results] == [
        ("A cube.", True),
        ("Nobody made it.", True),
        ("A ball.", False),
        ("A cube.", False),
    ]


def test_a_run_of_an_earlier_version_goes_on_and_counts_what_is_missing(
    two_folders: Path, tmp_path: Path, ties: tuple[object, ...]
) -> None:
    """It judged no pair of a missing video, and knew nothing of them."""
    (two_folders / "elder" / "clip3.mp4").unlink()
    assert rank(two_folders, *ties)[0] == 0
    run, results = tmp_path / "out" / "run.json", tmp_path / "out" / RESULTS
    pairs = all_pairs(replace(read_videos(two_folders), missing={}))
    digest = f'"digest": "{pairs_digest(pairs)}"'
    run.write_text(re.sub(r'"digest": "\w+"', digest, run.read_text("utf-8")), "utf-8")
    (line,) = (line for line in results.read_text("utf-8").splitlines() if "BrokenRow" not in line)
    old = line.replace(',"unreadable":[]', "")
    results.write_text(f"{old}\n", "utf-8")
    status, printed, _ = rank(two_folders, *ties, "--resume")
    assert (status, "1 (elder)" in printed) == (0, True)
    assert [
        line for line in results.read_text("utf-8").splitlines() if "BrokenRow" not in line
    ] == [old]
