"""Looking closer: the judge's very pixels, or nothing; bounded in bytes and in turns that wait."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from PIL import Image

from tests.support.small_clips import write_clip
from tests.support.waiting import PATIENCE_S, until
from tests.ui.conftest import Clips
from tests.ui.support.api import files
from tests.ui.support.inside import Inside, inside
from tests.ui.support.saved_examples import ANSWER, ask
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.runner import judge
from vrthinker_core.traces import load
from vrthinker_core.types import Frame, FrameRef, Settings, Side, VideoPair
from vrthinker_core.types.events import Trace
from vrthinker_core.types.messages import Message
from vrthinker_core.ui import frames, words
from vrthinker_core.ui.frames import ExactFrames
from vrthinker_core.ui.history import SavedRun
from vrthinker_core.ui.judges import JudgeLoader
from vrthinker_core.ui.sessions import ShownRun

Patch = pytest.MonkeyPatch
CALLS = {"paired": (10, 30, 60, 90), "concat": (5, 20, 21, 70)}
PAIRED, CONCAT = Settings(protocol="paired"), Settings(protocol="concat", opening="card")
Seen = list[dict[FrameRef, Frame]]  # the frames of both runs as they reached the judge


@pytest.fixture(scope="module")
def judges() -> Iterator[JudgeLoader]:
    openers = {"one": lambda: ScriptedBackend([ANSWER])}
    with closing(JudgeLoader(openers, in_thread=False)) as loader:
        yield loader


@pytest.fixture
def here(tmp_path: Path, judges: JudgeLoader) -> Iterator[Inside]:
    with inside(tmp_path, judges) as opened:
        yield opened


def judged(clips: Clips, path: Path, settings: Settings = PAIRED) -> tuple[Trace, Seen]:
    """A run of two turns in both orders."""
    seen: Seen = [{}, {}]
    calls, replies = list[Sequence[Message]](), [ask(*CALLS[settings.protocol]), ANSWER]

    def script(messages: Sequence[Message]) -> str:
        run, turn = divmod(len(calls), 2)
        calls.append(messages)
        seen[run].update({frame.ref: frame for message in messages for frame in message.frames})
        return replies[turn]

    pair, backend = VideoPair("A block.", *clips), ScriptedBackend(script, settings.protocol)
    for _ in judge(pair, backend, replace(settings, swap="on"), trace=path):
        pass
    return load(path), seen


@pytest.fixture(scope="module")
def run(clips: Clips, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return judged(clips, tmp_path_factory.mktemp("run") / "trace.json")[0]


def replay(here: Inside, trace: Trace, videos: Clips, page: str = "anna") -> ShownRun:
    return here.sessions.start_replay(here.sessions.get(page), SavedRun(trace), videos)


def decoded(exact: ExactFrames, shown: ShownRun, turn: int = 1, swapped: bool = False) -> Any:
    return exact.request(shown, turn, swapped).result(PATIENCE_S)


def sizes(here: Inside) -> dict[Path, tuple[int, int]]:
    """Each picture's bytes, and when it was written."""
    found = {}
    for path in files(here.sessions.thumbnail_root):
        with suppress(FileNotFoundError):  # it goes with its page just now
            found[path] = (path.stat().st_size, path.stat().st_mtime_ns)
    return found


@pytest.mark.parametrize("settings", [PAIRED, replace(PAIRED, fit="letterbox"), CONCAT])
def test_pixels_are_exact(here: Inside, clips: Clips, settings: Settings, tmp_path: Path) -> None:
    trace, seen = judged(clips, tmp_path / "trace.json", settings)
    shown = replay(here, trace, clips)
    for swapped in (False, True):
        found = [decoded(here.exact, shown, turn, swapped) for turn in (1, 2)]
        assert [turn["note"] for turn in found] == ["", ""]
        sources = {key: src for turn in found for key, src in turn["frames"].items()}
        for ref, frame in seen[swapped].items():
            src = sources.pop(f"{3 - ref.side if swapped else int(ref.side)}-{ref.slot}")
            with Image.open(here.sessions.thumbnail_root / Path(src).relative_to("frames")) as png:
                assert (*png.size, png.tobytes()) == (frame.width, frame.height, frame.rgb)
        assert sources == {}


def test_pictures_are_kept_once_and_go_with_a_page(here: Inside, run: Trace, clips: Clips) -> None:
    shown = replay(here, run, clips)
    first, written = decoded(here.exact, shown), sizes(here)
    assert len(written) == 8
    assert (decoded(here.exact, shown), sizes(here)) == (first, written)
    here.sessions.end("anna")
    until(lambda: not sizes(here))
    assert (decoded(here.exact, shown, 2)["frames"], sizes(here)) == ({}, {})


def test_a_video_is_opened_once_and_closed_when_idle(
    here: Inside, run: Trace, clips: Clips, monkeypatch: Patch
) -> None:
    def decoders() -> set[int]:
        return {child.pid for child in psutil.Process().children(recursive=True)} - before

    one, other, before = *(replay(here, run, clips, page) for page in ("a", "b")), set[int]()
    before = decoders()
    decoded(here.exact, one)
    opened = decoders()
    for turn in (2, 1):
        decoded(here.exact, one, turn)
        assert (decoders(), len(opened)) == (opened, 2)
    decoded(here.exact, other)
    until(lambda: len(decoders()) == 2 and not decoders() & opened)
    here.exact.close_idle()
    decoded(here.exact, other, 2)
    assert len(decoders()) == 2
    monkeypatch.setattr(frames, "IDLE_SECONDS", -1.0)
    here.exact.close_idle()
    until(lambda: not decoders())


def test_no_video_stands_for_another(
    here: Inside, run: Trace, clips: Clips, tmp_path: Path
) -> None:
    one, two = (tmp_path / f"{number}.mp4" for number in (1, 2))
    first, second = run.started.clips
    write_clip(one, frames=first.frames, hue=120)
    found = decoded(here.exact, replay(here, run, (one, two)))
    assert (found["frames"], found["note"]) == ({}, words.VIDEOS_GONE)
    shutil.copy(clips[0], one)
    write_clip(two, frames=second.frames, hue=120)
    found = decoded(here.exact, replay(here, run, (one, two)))
    assert (len(found["frames"]), found["note"]) == (4, words.VIDEO_GONE.format(2))


def test_a_trace_that_lies_gets_no_frames(here: Inside, run: Trace, clips: Clips) -> None:
    far, farther, late, *true = run.turns[0].frames
    lies = [replace(late, index=late.index + 1), *true]
    for frame, slot in ((far, 128), (farther, 2**40)):
        lies.append(replace(frame, ref=FrameRef(slot, Side.FIRST)))
    trace = replace(run, turns=(replace(run.turns[0], frames=tuple(lies)),))
    found = decoded(here.exact, replay(here, trace, clips))
    assert found["frames"].keys() == {f"{int(each.ref.side)}-{each.ref.slot}" for each in true}
    assert found["note"] == words.VIDEO_GONE.format(1)


def test_pictures_are_bounded_by_run_and_together(
    here: Inside, run: Trace, clips: Clips, judges: JudgeLoader, monkeypatch: Patch
) -> None:
    shown = [replay(here, run, clips, page) for page in ("anna", "bert", "cleo")]

    def taken() -> int:
        return sum(size for size, _ in sizes(here).values())

    with monkeypatch.context() as patch, closing(ExactFrames(judges.decoder_pool)) as exact:
        patch.setattr(frames, "MAX_RUN_BYTES", 20_000)
        found = [decoded(exact, shown[0], turn) for turn in (1, 2)]
    assert (0 < taken() <= 20_000, found[-1]["note"]) == (True, words.NO_ROOM_FOR_FRAMES)
    decoded(here.exact, shown[0])
    monkeypatch.setattr(frames, "MAX_BYTES", 2 * taken())
    with closing(ExactFrames(judges.decoder_pool)) as exact:
        found = [decoded(exact, shown[number]) for number in (0, 1, 0, 2)]
        kept = {path.parent.name for path in sizes(here)}
        assert kept == {shown[0].name, shown[2].name}, "what was looked at longest ago goes"
        assert {len(turn["frames"]) for turn in [*found, decoded(exact, shown[1])]} == {8}


def test_the_route_bars_crowds(here: Inside, run: Trace, clips: Clips, monkeypatch: Patch) -> None:
    shown = replay(here, run, clips)

    def got(turn: str, name: str = shown.name) -> Any:
        return here.http.get(f"/runs/{name}/turns/{turn}/frames")

    with monkeypatch.context() as patch:
        patch.setattr(frames, "MAX_WAITING", 0)
        assert (got("1").status_code, got("1").text) == (503, words.MANY_LOOK_CLOSER)
    assert got("1").json() == decoded(here.exact, shown)
    wrong = [got(turn) for turn in ("0", "3", "9" * 40, "-1", "01", "1.0", "x", "9" * 5000)]
    assert {answer.status_code for answer in [*wrong, got("1", "another")]} == {404}
