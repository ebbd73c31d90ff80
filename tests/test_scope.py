"""A judge for drawn scenes gives a verdict on what this project drew and on nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from tests.support.drawn_pairs import drawn_pairs
from tests.support.engines import end_of
from tests.test_cli import Clips, run
from vrthinker_core.backends import Backend, ScriptedBackend, open_backend
from vrthinker_core.drawn.notes import asked_scene
from vrthinker_core.drawn.world import draw_facts, write_prompt
from vrthinker_core.errors import CheckpointError
from vrthinker_core.evaluation.reward import ComparedVideos
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import result_of
from vrthinker_core.runner import compare, judge
from vrthinker_core.traces import load, to_json
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.events import Finished
from vrthinker_core.types.wording import ODD_PROMPT, OUTSIDE_SCOPE
from vrthinker_core.ui.api import run_json
from vrthinker_core.ui.routes import render_report
from vrthinker_core.ui.view import RunView
from vrthinker_core.video.timeline import claims_drawn

NULLS = dict.fromkeys(("TA", "MQ", "VQ", "OA"))
FACTS = "#16 at 1%,2% clear; #48 at 1%,2% clear, moves; #80 at 1%,2% noisy, jumps; #112 at 1%,2% clear, moves; "
HALF_UNDERSTOOD = (
    "A red ball.",
    "red cube",
    "A cube moves left across the sand.",
    "A red cube moves left.",
    "Left across the sand moves a red cube.",
    "A red cube moves left across the sand. Ein Hund läuft.",
    "A red cube moves left across the sand at night, cinematic, 4k",
    "On sand, a red cube moves left on grass.",
)
SENTENCES = [ODD_PROMPT.rstrip("."), OUTSIDE_SCOPE.rstrip(".")]

UNDERSTOOD = "A red cube moves left across the wood."
ASKED = "The prompt asks for a red cube moving left on wood.\n"
SEEN = f"{FACTS}so far noisy at #80, jumps at #80.\n"
FIRST = f"Video 1 shows an orange ball and two red cubes moving away: {SEEN}"
SECOND = f"Video 2 shows three blue cones moving closer: {SEEN}"
ANSWER = "<Think>t</Think><Answer>TA=1, VQ=1, MQ=1, OA=1</Answer>"


@pytest.fixture(scope="module")
def nano() -> Backend:
    return open_backend("nano")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> VideoPair:
    return drawn_pairs(1, 5, tmp_path_factory.mktemp("drawn"), 112)[0]


def end_of_notes(pair: VideoPair, notes: str, **how: Any) -> Finished:
    """The end of a run in which a judge for drawn scenes notes this and answers."""
    reply = f"<Snapshot>\n{notes}</Snapshot>{ANSWER}"
    return end_of(judge(pair, ScriptedBackend([reply], scope="drawn"), **how))


def copied(source: Path | str, target: Path, *, encode: bool, comment: str | None = None) -> Path:
    """The video in another file, its packets as they are or encoded anew."""
    with av.open(str(source)) as old, av.open(str(target), "w") as new:
        new.metadata["comment"] = old.metadata["comment"] if comment is None else comment
        before = old.streams.video[0]
        if not encode:
            stream = new.add_stream_from_template(before)
            for packet in (packet for packet in old.demux(before) if packet.dts is not None):
                packet.stream = stream
                new.mux(packet)
            return target
        encoder = new.add_stream("libx264", rate=24)
        encoder.width, encoder.height, encoder.pix_fmt = before.width, before.height, "yuv420p"
        for number, frame in enumerate(old.decode(before)):
            frame.pts, frame.time_base = number, Fraction(1, 24)
            new.mux(encoder.encode(frame))
        new.mux(encoder.encode())
    return target


@pytest.mark.parametrize("protocol", ["paired", "concat"])
def test_drawn_clips_have_a_verdict(nano: Backend, drawn: VideoPair, protocol: str) -> None:
    settings = Settings(protocol=protocol, swap="on", max_turns=1)  # type: ignore[arg-type]
    ends = [run.finished for run in compare(drawn, nano, settings).runs]
    assert [(end.verdict is not None, end.outside_scope) for end in ends] == [(True, False)] * 2


def test_a_changed_clip_is_outside_and_one_that_was_copied_is_not(
    drawn: VideoPair, clips: Clips, tmp_path: Path
) -> None:
    drawn = replace(drawn, prompt=UNDERSTOOD)
    with av.open(str(drawn.first)) as video:
        mark = video.metadata["comment"]
    said = "drawn world 1: seed 5, pair 0, video 1, 112 px"
    changed = [
        copied(drawn.first, tmp_path / "anew.mp4", encode=True),
        copied(drawn.first, tmp_path / "unmarked.mp4", encode=False, comment=said),
        copied(clips[0], tmp_path / "marked.mp4", encode=True, comment=mark),
    ]
    pairs = [replace(drawn, **{side: file}) for file in changed for side in ("first", "second")]
    for pair in pairs:
        end = end_of_notes(pair, ASKED + FIRST + SECOND)
        assert (end.verdict, end.outside_scope) == (None, True)
    same = replace(drawn, first=copied(drawn.first, tmp_path / "same.mp4", encode=False))
    assert not end_of_notes(same, ASKED + FIRST + SECOND).outside_scope


def test_a_mark_is_found_without_decoding(drawn: VideoPair, clips: Clips, tmp_path: Path) -> None:
    again = copied(drawn.first, tmp_path / "again.mp4", encode=True, comment="none")
    (empty := tmp_path / "empty.mp4").touch()
    files = (Path(drawn.first), Path(drawn.second), again, *clips, empty)
    assert [claims_drawn(file) for file in files] == [True, True, False, False, False, False]


@pytest.mark.parametrize(
    ("notes", "inside"),
    [
        (ASKED + FIRST + SECOND, True),
        (ASKED.replace("left", "right") + FIRST + SECOND, False),
        (ASKED.replace(" on wood", "") + FIRST + SECOND, False),
        (ASKED.replace("a red cube moving left on wood", "a real scene") + FIRST + SECOND, False),
        (ASKED.replace("cube", "dragon") + FIRST + SECOND, False),
        (ASKED + FIRST.replace("#112 at 1%,2% clear, moves; ", "") + SECOND, False),
        (ASKED + FIRST.replace("#112", "#102") + SECOND, False),
        (ASKED + FIRST + SECOND.replace("three blue cones moving closer", "a real scene"), False),
        (ASKED + FIRST, False),
        (ASKED + FIRST + SECOND + "And a cat.", False),
        (FIRST + SECOND, False),
        ("", False),
    ],
)
def test_first_notes_must_read_as_drawn(
    drawn: VideoPair, tmp_path: Path, notes: str, inside: bool
) -> None:
    drawn, path = replace(drawn, prompt=UNDERSTOOD), tmp_path / "run.json"
    end = end_of_notes(drawn, notes, trace=path)
    assert (end.verdict is not None, end.outside_scope) == (inside, not inside)
    assert load(path).turns[0].reply.verdict is not None, "what the judge wrote is kept"
    for_all = ScriptedBackend([f"<Snapshot>\n{notes}</Snapshot>{ANSWER}"])
    assert end_of(judge(drawn, for_all)).verdict is not None, "a judge for all videos is not asked"


@pytest.mark.parametrize("prompt", HALF_UNDERSTOOD)
def test_a_prompt_that_is_half_understood_has_no_verdict(drawn: VideoPair, prompt: str) -> None:
    end = end_of_notes(replace(drawn, prompt=prompt), f"The prompt asks for .\n{FIRST}{SECOND}")
    assert (asked_scene(prompt), end.verdict, end.outside_scope) == ("", None, True)


def test_each_prompt_of_the_drawn_world_is_read_as_its_scene() -> None:
    rng = np.random.default_rng(1)
    for facts in (draw_facts(rng) for _ in range(200)):
        prompt = write_prompt(rng, facts)
        for written in (prompt, prompt.lower(), f" {prompt}  ", prompt.replace(" on ", " on the ")):
            assert asked_scene(written) == facts.scene


@pytest.mark.parametrize(
    ("prompt", "scene"),
    [
        (
            "Two red cylinders and three black cylinders travel towards the camera on wood, seen "
            "from above.",
            "two red cylinders and three black cylinders moving closer on wood",
        ),
        (
            "a close shot of a photo with three yellow rings moving away",
            "three yellow rings moving away on a photo",
        ),
        ("Wood in the sun: four blue rings drift closer.", "four blue rings moving closer on wood"),
        (
            "Video of a purple ball and an orange ball going away on tiles.",
            "a purple ball and an orange ball moving away on tiles",
        ),
        (
            "On a photo, three green cubes slide away from the camera.",
            "three green cubes moving away on a photo",
        ),
    ],
)
def test_a_prompt_of_the_world_that_nano_learnt_is_read_as_its_scene(
    prompt: str, scene: str
) -> None:
    assert asked_scene(prompt) == scene


def test_every_face_says_why(nano: Backend, drawn: VideoPair, tmp_path: Path) -> None:
    odd_pair, kept = replace(drawn, prompt="A red ball."), tmp_path / "0.json"
    odd = compare(odd_pair, nano, Settings(max_turns=1), trace=kept)
    clips = tuple(replace(clip, drawn=False) for clip in odd.started.clips if clip)
    real = replace(odd, started=replace(odd.started, clips=clips))
    (tmp_path / "1.json").write_bytes(to_json(real))
    pair = EvaluationPair("drawn", 1, "p", "a", "b")
    for number, trace in enumerate((odd, real)):
        view = RunView(trace)
        plain, labels = (
            run("replay", tmp_path / f"{number}.json", *more) for more in ([], ["--json"])
        )
        assert (plain.returncode, "\nVerdict" in plain.stdout) == (3, False)
        assert (labels.returncode, json.loads(labels.stdout)) == (3, NULLS)
        faces = {
            "command line": plain.stdout,
            "labels": labels.stderr,
            "page": view.headline,
            "report": render_report(trace),
            "API": str(run_json(view)["notes"]),
            "evaluation": result_of(pair, trace).error,
            "reward": ComparedVideos(0, 1, trace).error,
        }
        for face, told in faces.items():
            found = [sentence for sentence in SENTENCES if sentence in told]
            assert found == [SENTENCES[number]], face


def test_the_scope_belongs_to_the_checkpoint(nano: Backend, tmp_path: Path) -> None:
    for path in Path("assets/nano").resolve().iterdir():
        if path.name != "vrthinker.json":
            (tmp_path / path.name).symlink_to(path)
    said = json.loads(Path("assets/nano/vrthinker.json").read_text())
    said.pop("scope")

    def opened(**scope: str) -> Backend:
        (tmp_path / "vrthinker.json").write_text(json.dumps(said | scope))
        return open_backend(f"hf:{tmp_path}")

    assert (nano.scope, opened(scope="drawn").scope, opened().scope) == ("drawn", "drawn", "any")
    with pytest.raises(CheckpointError, match="'cats'"):
        opened(scope="cats")
