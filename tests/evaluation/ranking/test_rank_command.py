"""`rank`, end to end: five generators of known flaw rates and a planted cycle, real clips and the built-in judge, bad input."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.small_clips import write_clip
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.cli import main
from vrthinker_core.evaluation.engines.local import judge_locally
from vrthinker_core.evaluation.ranking.ranking import rank_generators
from vrthinker_core.evaluation.ranking.report import write_report
from vrthinker_core.evaluation.ranking.run import judge_pairs
from vrthinker_core.evaluation.ranking.video_table import VideoTable, read_videos
from vrthinker_core.results.result_file import RESULTS, TRACES, read_results
from vrthinker_core.traces import load
from vrthinker_core.types import Dimension, Settings, Side
from vrthinker_core.types.messages import Message

EXAMPLES = Path(__file__).resolve().parents[3] / "assets" / "examples"
FLAWED = {"amber": 0, "birch": 1, "cedar": 2, "daisy": 3, "elder": 4}  # Videos with a flaw, of five
HUES = {(name, flawed): 30 * place + 15 * flawed for place, name in enumerate(FLAWED) for flawed in (False, True)}
ROUND_ROBIN = ("amber", "cedar", "elder")  # In motion quality each of them beats the next one
RankCommand = Callable[..., tuple[int, str, list[str]]]
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
    frame = next(frame for message in messages for frame in message.frames if frame.ref.side == side)
    red = np.frombuffer(frame.rgb, np.uint8).reshape(frame.height, frame.width, 3)[-1, :, 0].mean() - 40
    return min(HUES, key=lambda key: abs(HUES[key] - red))


def truth(messages: Sequence[Message]) -> str:
    """A judge that knows the truth."""
    (first, flawed), (second, other) = (made_by(messages, side) for side in Side)
    quality = 0 if flawed == other else 2 if flawed else 1
    motion = 0
    if first in ROUND_ROBIN and second in ROUND_ROBIN:
        motion = 1 if ROUND_ROBIN[ROUND_ROBIN.index(first) - 2] == second else 2
    return ANSWER.format(motion, quality, quality)


def ranked(folder: Path, table: VideoTable, budget: int | None = None) -> dict[str, Any]:
    """The ranking as it is written."""
    engine = partial(
        judge_locally, backend=ScriptedBackend(truth, protocol="paired"), settings=Settings(), out=folder, concurrency=8
    )
    (folder / TRACES).mkdir(parents=True)
    for _ in judge_pairs(table, engine, "truth", folder, budget):
        pass
    write_report(rank_generators(table, list(read_results(folder / RESULTS)), "truth", samples=100), folder)
    written: dict[str, Any] = json.loads((folder / "ranking.json").read_text("utf-8"))
    return written


def order_of(found: dict[str, Any], dimension: str) -> list[str]:
    return [row["generator"] for row in found["dimensions"][dimension]["strengths"]]


def test_generators_of_known_flaw_rates_are_ordered_rightly_and_a_planted_cycle_is_found(generators: Path, tmp_path: Path) -> None:
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
    names: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: names.append(tag)  # type: ignore[method-assign]
    parser.feed(page)
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", page), "it asks for nothing"
    assert names.count("svg") == 8, "bars and matrix, in four dimensions"
    for text in ("amber beats cedar beats elder beats amber", "Best of each prompt", "amber against elder: 4 won, 1 tied, 0 lost"):
        assert text in page


def test_within_a_budget_the_ends_are_still_told_apart(generators: Path, tmp_path: Path) -> None:
    found = ranked(tmp_path, read_videos(generators), budget=20)
    assert found["pairs"] == 20
    assert order_of(found, "OA").index("amber") < order_of(found, "OA").index("elder")


@pytest.fixture
def two_generators(tmp_path: Path) -> Path:
    """Drawn clips: the videos 1 and the videos 2 of two examples."""
    rows = ["generator,prompt,video"]
    for example in ("think-1-what-four-frames-do-not-show", "think-2-one-colour-in-the-prompt"):
        prompt = load(EXAMPLES / example / "trace.json").started.prompt
        rows += [f'{name},"{prompt}",{EXAMPLES / example / name}.mp4' for name in ("first", "second")]
    (tmp_path / "videos.csv").write_text("\n".join(rows) + "\n", "utf-8")
    return tmp_path / "videos.csv"


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RankCommand:
    """Runs the command in this process; gives its exit status, what it printed and its lines on standard error."""

    def run(*arguments: object) -> tuple[int, str, list[str]]:
        monkeypatch.setattr(sys, "argv", ["vrthinker_core", "rank", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err.splitlines()

    return run


def test_the_command_ranks_drawn_clips_with_the_built_in_judge(two_generators: Path, tmp_path: Path, rank: RankCommand) -> None:
    out = tmp_path / "out"
    status, printed, _ = rank(two_generators, "--judge", "nano", "--max-turns", 1, "--out", out)
    assert status == 0
    assert "2 pairs of 2 prompts judged by nano (built in)." in printed
    found = json.loads((out / "ranking.json").read_text("utf-8"))
    wins = {row["generator"]: row["all_pairs"]["wins"] for row in found["dimensions"]["OA"]["strengths"]}
    verdicts = [json.loads(line)["verdict"]["OA"] for line in (out / RESULTS).read_text("utf-8").splitlines()]
    assert sum(wins.values()) == sum(label != 0 for label in verdicts)


def test_a_run_goes_on_and_a_folder_of_another_run_is_refused(two_generators: Path, tmp_path: Path, rank: RankCommand) -> None:
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
        ((other, "--resume"), "holds another evaluation, with the data set"),
        ((two_generators, "--resume", "--max-turns", "3"), "holds another evaluation, with the settings"),
    ):
        status, _, errors = rank(*arguments, *judge)
        assert (status, len(errors)) == (2, 1)
        assert sentence in errors[0]
    assert (out / RESULTS).read_bytes() == before


def test_equal_generators_have_no_minus_nought(two_generators: Path, tmp_path: Path, rank: RankCommand) -> None:
    rows = two_generators.read_text("utf-8").splitlines()
    two_generators.write_text(
        "\n".join([*rows, *(row.replace("first,", "third,", 1) for row in rows if "first," in row), ""]), "utf-8"
    )
    (tmp_path / "script.jsonl").write_text(json.dumps({"reply": ANSWER.format(0, 0, 0)}))
    status, printed, _ = rank(two_generators, "--judge", f"scripted:{tmp_path / 'script.jsonl'}", "--out", tmp_path / "out")
    assert status == 0
    assert printed.count("+0.00") >= 3
    assert "-0.00" not in printed
    assert "-0.00" not in (tmp_path / "out" / "ranking.html").read_text("utf-8")


def test_bad_input_is_one_sentence(two_generators: Path, tmp_path: Path, rank: RankCommand) -> None:
    (tmp_path / "file").write_text("x")
    for arguments, sentence in (
        ((tmp_path / "no",), "There is no folder or CSV"),
        ((two_generators, "--budget", "0"), "it takes at least 1"),
        ((two_generators, "--out", tmp_path / "file"), "Cannot write to"),
    ):
        status, _, errors = rank(*arguments, "--judge", "nano")
        assert (status, len(errors)) == (2, 1)
        assert sentence in errors[0]


def test_a_video_that_breaks_costs_its_pairs_and_is_named(two_generators: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video at all")
    text = two_generators.read_text("utf-8").splitlines()
    text[1] = text[1].rsplit(",", 1)[0] + f",{broken}"
    two_generators.write_text("\n".join(text) + "\n", "utf-8")
    table = read_videos(two_generators)
    found = ranked(tmp_path / "out", table)
    assert (found["pairs"], len(found["failed"])) == (1, 1)
    assert "broken.mp4" in found["failed"][0] or "video" in found["failed"][0]
    assert found["dimensions"][Dimension.OA]["strengths"][0]["interval"] is None, "one prompt is left"
