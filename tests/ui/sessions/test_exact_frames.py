"""Looking closer: the pictures are the judge's very pixels, or nothing; bounded in bytes and in turns that wait."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from starlette.applications import Starlette
from starlette.testclient import TestClient

from tests.support.small_clips import write_clip
from tests.support.waiting import PATIENCE_S, until
from tests.ui.sessions.test_background_run import finish_at_once
from tests.ui.sessions.test_sessions import files
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.judge import judge
from vrthinker_core.traces import load
from vrthinker_core.types import Frame, FrameRef, Settings, Side, VideoPair
from vrthinker_core.types.events import Run, Trace
from vrthinker_core.types.messages import Message
from vrthinker_core.ui import exact_frames, words
from vrthinker_core.ui.exact_frames import ExactFrames, ExactFramesJson
from vrthinker_core.ui.file_routes import DownloadRoutes
from vrthinker_core.ui.page_sessions import Session, Sessions
from vrthinker_core.ui.run_store import RunStore
from vrthinker_core.ui.shared_traces import SharedTraces
from vrthinker_core.video import DecoderPool
from vrthinker_core.video.process import Worker

ANSWER = "<Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"
CALLS = {"paired": [10, 30, 60, 90], "concat": [5, 20, 21, 70]}
SETTINGS = {
    "paired": Settings(protocol="paired"),
    "letterbox": Settings(protocol="paired", fit="letterbox"),
    "concat": Settings(protocol="concat", opening="card"),
}


@pytest.fixture(scope="module")
def decoders() -> Iterator[DecoderPool]:
    with DecoderPool() as pool:
        yield pool


@pytest.fixture
def exact(decoders: DecoderPool) -> Iterator[ExactFrames]:
    frames = ExactFrames(decoders)
    yield frames
    frames.close()


def judged(pair: VideoPair, settings: Settings, path: Path) -> tuple[Trace, dict[FrameRef, Frame]]:
    """A run of two turns, and the frames as they reached its judge."""
    seen: dict[FrameRef, Frame] = {}
    answers = iter(
        [
            f'<tool_call>{{"name": "select_frames", "arguments": {CALLS[settings.protocol]}}}</tool_call>',
            ANSWER,
        ]
    )

    def script(messages: Sequence[Message]) -> str:
        seen.update({frame.ref: frame for message in messages for frame in message.frames})
        return next(answers)

    for _ in judge(pair, ScriptedBackend(script, protocol=settings.protocol), settings, trace=path):
        pass
    return load(path), seen


def replay(sessions: Sessions, trace: Trace, pair: VideoPair, visitor: str = "anna") -> Session:
    return sessions.start_replay(visitor, trace, videos=(Path(pair.first), Path(pair.second)))


def decoded(
    exact: ExactFrames, session: Session, turn: int, swapped: bool = False
) -> ExactFramesJson:
    future = exact.request(session, turn, swapped)
    return future.result(PATIENCE_S)


def pixels(sessions: Sessions, src: str) -> tuple[tuple[int, int], bytes]:
    with Image.open(sessions.thumbnail_root / Path(src).parent.name / Path(src).name) as picture:
        return picture.size, picture.tobytes()


@pytest.fixture(scope="module")
def run(
    clips: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[VideoPair, Trace]:
    pair = VideoPair("A white block glides to the right.", *clips)
    return pair, judged(pair, SETTINGS["paired"], tmp_path_factory.mktemp("run") / "trace.json")[0]


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_pixels_are_those_that_the_judge_was_given(
    exact: ExactFrames, pair: VideoPair, settings: Settings, tmp_path: Path
) -> None:
    trace, seen = judged(pair, settings, tmp_path / "trace.json")
    sessions = Sessions(tmp_path / "server", finish_at_once)
    session = replay(sessions, trace, pair)
    shown = [frame.ref for turn in trace.turns for frame in turn.frames]
    found = [decoded(exact, session, turn.number) for turn in trace.turns]
    sources = {key: src for turn in found for key, src in turn["frames"].items()}
    assert [turn["note"] for turn in found] == ["", ""]
    assert sources.keys() == {f"{int(ref.side)}-{ref.slot}" for ref in shown}
    for ref in shown:
        frame = seen[ref]
        assert pixels(sessions, sources[f"{int(ref.side)}-{ref.slot}"]) == (
            (frame.width, frame.height),
            frame.rgb,
        )


def test_those_of_the_second_run_are_named_after_the_persons_own_videos(
    exact: ExactFrames, pair: VideoPair, tmp_path: Path
) -> None:
    settings, sessions = SETTINGS["concat"], Sessions(tmp_path / "server", finish_at_once)
    swapped, seen = judged(pair.swapped(), settings, tmp_path / "swapped.json")
    trace = replace(
        judged(pair, settings, tmp_path / "trace.json")[0],
        swapped=Run(swapped.started, swapped.turns, swapped.finished),
    )
    session = replay(sessions, trace, pair)
    found = [decoded(exact, session, turn.number, swapped=True) for turn in swapped.turns]
    sources = {key: src for turn in found for key, src in turn["frames"].items()}
    assert sources.keys() == {f"{3 - ref.side}-{ref.slot}" for ref in seen}
    for ref, frame in seen.items():
        assert pixels(sessions, sources[f"{3 - ref.side}-{ref.slot}"]) == (
            (frame.width, frame.height),
            frame.rgb,
        )


def test_a_live_run_gives_them_while_it_goes_on(
    exact: ExactFrames, pair: VideoPair, tmp_path: Path
) -> None:
    backend = ScriptedBackend(["word " * 10_000], protocol="paired", pause=0.01)
    sessions = Sessions(
        tmp_path, lambda job: judge(job.pair, backend, job.settings, cancelled=job.stop_file.exists)
    )
    session = sessions.start_run("anna", pair, Settings())
    until(lambda: session.run.state.turns and session.run.state.turns[0].text)
    assert len(decoded(exact, session, 1)["frames"]) == 8
    assert not session.run.over
    session.run.stop()


def test_nothing_is_written_twice_and_all_goes_with_the_session(
    exact: ExactFrames, run: tuple[VideoPair, Trace], tmp_path: Path
) -> None:
    sessions = Sessions(tmp_path, finish_at_once)
    session = replay(sessions, run[1], run[0])
    first = decoded(exact, session, 1)
    times = {path: path.stat().st_mtime_ns for path in files(tmp_path)}
    assert len(times) == 8
    assert decoded(exact, session, 1) == first
    assert {path: path.stat().st_mtime_ns for path in files(tmp_path)} == times
    sessions.end("anna")
    until(lambda: not files(tmp_path))
    assert decoded(exact, session, 2)["frames"] == {}
    assert not files(tmp_path)


class CountingPool(DecoderPool):
    """Keeps the processes that were started."""

    def __init__(self) -> None:
        super().__init__()
        self.workers: list[Worker] = []

    def start_worker(self) -> Worker:
        self.workers.append(super().start_worker())
        return self.workers[-1]

    @property
    def running(self) -> int:
        return sum(Path(f"/proc/{worker.process.pid}").exists() for worker in self.workers)


def test_a_video_is_opened_once_for_all_turns_and_closed_when_nobody_looks(
    run: tuple[VideoPair, Trace], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = Sessions(tmp_path, finish_at_once)
    one, other = (replay(sessions, run[1], run[0], visitor) for visitor in ("anna", "bert"))
    with CountingPool() as pool:
        exact = ExactFrames(pool)
        for turn in (1, 2, 1):
            decoded(exact, one, turn)
        assert len(pool.workers) == pool.running == 2
        decoded(exact, other, 1)
        until(lambda: pool.running == 2)
        assert len(pool.workers) == 4
        exact.close_idle()
        decoded(exact, other, 2)
        assert len(pool.workers) == 4
        monkeypatch.setattr(exact_frames, "IDLE_SECONDS", -1.0)
        exact.close_idle()
        until(lambda: pool.running == 0)
        exact.close()


@pytest.mark.parametrize(
    ("gone", "note", "left"),
    [((0, 1), words.VIDEOS_GONE, 0), ((1,), words.VIDEO_GONE.format(2), 4)],
    ids=["both", "second"],
)
def test_videos_that_are_gone(
    exact: ExactFrames,
    run: tuple[VideoPair, Trace],
    tmp_path: Path,
    gone: Sequence[int],
    note: str,
    left: int,
) -> None:
    copies = [
        Path(shutil.copy(path, tmp_path / f"{number}.mp4"))
        for number, path in enumerate((run[0].first, run[0].second))
    ]
    session = replay(Sessions(tmp_path / "server", finish_at_once), run[1], VideoPair("", *copies))
    for number in gone:
        copies[number].unlink()
    found = decoded(exact, session, 1)
    assert (found["note"], len(found["frames"])) == (note, left)


def test_pictures_of_other_videos_never_stand_for_the_judge_s(
    exact: ExactFrames, run: tuple[VideoPair, Trace], tmp_path: Path
) -> None:
    lengths = [clip.frames for clip in run[1].started.clips if clip]
    others = [write_clip(tmp_path / f"{frames}.mp4", frames=frames, hue=120) for frames in lengths]
    session = replay(Sessions(tmp_path / "server", finish_at_once), run[1], VideoPair("", *others))
    assert decoded(exact, session, 1) == {"frames": {}, "note": words.VIDEOS_GONE}


def test_a_trace_that_lies_about_its_frames_gets_none(
    exact: ExactFrames, run: tuple[VideoPair, Trace], tmp_path: Path
) -> None:
    first = run[1].turns[0]
    lies = (
        replace(first.frames[0], ref=FrameRef(128, Side.FIRST)),
        replace(first.frames[1], ref=FrameRef(2**40, Side.FIRST)),
        replace(first.frames[2], index=first.frames[2].index + 1),
        *first.frames[3:],
    )
    trace = replace(run[1], turns=(replace(first, frames=lies),))
    found = decoded(exact, replay(Sessions(tmp_path, finish_at_once), trace, run[0]), 1)
    assert found["frames"].keys() == {
        f"{int(frame.ref.side)}-{frame.ref.slot}" for frame in first.frames[3:]
    }
    assert found["note"] == words.VIDEO_GONE.format(1)


def test_one_run_takes_no_more_than_its_bytes(
    decoders: DecoderPool, run: tuple[VideoPair, Trace], tmp_path: Path
) -> None:
    exact = ExactFrames(decoders, max_run_bytes=20_000)
    session = replay(Sessions(tmp_path, finish_at_once), run[1], run[0])
    found = [decoded(exact, session, turn.number) for turn in run[1].turns]
    exact.close()
    assert 0 < sum(path.stat().st_size for path in files(tmp_path)) <= 20_000
    assert found[-1]["note"] == words.NO_ROOM_FOR_FRAMES


def test_all_runs_together_take_no_more_than_theirs(
    decoders: DecoderPool, run: tuple[VideoPair, Trace], tmp_path: Path
) -> None:
    sessions = Sessions(tmp_path, finish_at_once)
    runs = [replay(sessions, run[1], run[0], visitor) for visitor in ("anna", "bert", "cleo")]
    exact = ExactFrames(decoders)
    decoded(exact, runs[0], 1)
    size = sum(path.stat().st_size for path in files(tmp_path))
    exact.close()
    exact = ExactFrames(decoders, max_bytes=2 * size)
    found = [decoded(exact, runs[number], 1) for number in (0, 1, 0, 2)]
    kept = {path.parent.name for path in files(tmp_path)}
    again = decoded(exact, runs[1], 1)
    exact.close()
    assert kept == {runs[0].name, runs[2].name}, "the run that was looked at longest ago goes"
    assert all(len(turn["frames"]) == 8 for turn in [*found, again])


@pytest.fixture
def visit(exact: ExactFrames, tmp_path: Path) -> tuple[Sessions, TestClient]:
    """The routes of a server, without its page."""
    sessions = Sessions(tmp_path / "server", finish_at_once)
    routes = DownloadRoutes(sessions, SharedTraces(RunStore(tmp_path / "shared")), exact).routes()
    return sessions, TestClient(Starlette(routes=routes))


def test_the_route_serves_the_turns_of_a_run_and_nothing_else(
    exact: ExactFrames, run: tuple[VideoPair, Trace], visit: tuple[Sessions, TestClient]
) -> None:
    sessions, client = visit
    session = replay(sessions, run[1], run[0])
    answer = client.get(f"/runs/{session.name}/turns/1/frames")
    assert answer.status_code == 200
    assert json.loads(answer.text) == decoded(exact, session, 1)
    for address in (
        f"{session.name}/turns/0",
        f"{session.name}/turns/3",
        f"{session.name}/turns/{'9' * 40}",
        "another/turns/1",
    ):
        assert client.get(f"/runs/{address}/frames").status_code == 404
    for turn in ("-1", "01", "1.0", "x", "9" * 5000):
        assert client.get(f"/runs/{session.name}/turns/{turn}/frames").status_code == 404


def test_a_crowd_is_told_to_come_again(
    run: tuple[VideoPair, Trace],
    visit: tuple[Sessions, TestClient],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sessions, client = visit
    monkeypatch.setattr(exact_frames, "MAX_WAITING", 0)
    session = replay(sessions, run[1], run[0])
    answer = client.get(f"/runs/{session.name}/turns/1/frames")
    assert (answer.status_code, answer.text) == (503, words.MANY_LOOK_CLOSER)
    monkeypatch.undo()
    assert client.get(f"/runs/{session.name}/turns/1/frames").status_code == 200
