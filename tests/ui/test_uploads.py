"""Videos of visitors: bounded in bytes and time; what nobody uses, or breaks off, leaves no file."""

import asyncio
import contextlib
import json
import resource
import socket
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock
from urllib.parse import urlsplit

import gradio
import pytest
from gradio.route_utils import FileUploadProgress
from starlette.requests import Request
from starlette.types import Message

from tests.support.small_clips import write_clip
from tests.support.threads import run_in_thread
from tests.support.waiting import PATIENCE_S, until
from tests.ui.conftest import Clips, Server
from tests.ui.support.api import FORM, HEAD, TAIL, answers, ask, files, uploaded
from tests.ui.support.inside import Site
from tests.ui.support.saved_examples import PROMPT, write_old
from vrthinker_core.errors import BadInput, VideoUnavailable
from vrthinker_core.types import Side
from vrthinker_core.ui import routes, uploads as module, words
from vrthinker_core.ui.handlers import Handlers, PlayerHandlers
from vrthinker_core.ui.queue import ForgottenUploads
from vrthinker_core.ui.sessions import Session
from vrthinker_core.ui.visitors import BYTES, UNKNOWN, Limit, Shares, Visitor
from vrthinker_core.video import browser_copies

LIMIT = 100 * 2**20
Patch = pytest.MonkeyPatch


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def post(site: Site, pieces: list[bytes], pause: float = 0, visitor: Visitor = UNKNOWN) -> Any:
    """The answer to an upload that comes in these pieces, with a pause before each."""

    async def messages() -> AsyncIterator[Message]:
        for number, piece in enumerate(pieces):
            await asyncio.sleep(pause)
            yield {"type": "http.request", "body": piece, "more_body": number < len(pieces) - 1}
        yield {"type": "http.disconnect"}

    told = {"type": "http", "method": "POST", "query_string": b"", "state": {"visitor": visitor}}
    coming, headers = messages(), [(b"content-type", FORM.encode())]
    request = Request({**told, "headers": headers}, lambda: anext(coming))
    return run_in_thread(site.routes.upload(request))


def test_uploads_arrive_whole_and_take_nobody_elses_share(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    site = Site(tmp_path, limit=Limit(5000, 20_000, "Your files.", "No room."))
    (path,) = map(Path, json.loads(post(site, [HEAD, b"x" * 9, b"y" * 9, TAIL]).body))
    assert (path.name, len(path.parent.name)) == ("zeros.mp4", 64)
    assert path.read_bytes() == b"x" * 9 + b"y" * 9
    assert files(path.parents[1]) == [path]

    def add(content: bytes, owner: str, address: str = "8.8.8.8") -> tuple[int, bytes]:
        answer = post(site, [HEAD, *[content * 1000] * 3, TAIL], visitor=Visitor(owner, address))
        return answer.status_code, answer.body if answer.status_code != 200 else b""

    taken, own, whole = (200, b""), (507, b"Your files."), (507, b"No room.")
    assert [add(b"a", "anna"), add(b"b", "anna"), add(b"c", "bert")] == [taken, own, taken]
    told = [add(bytes([65 + number]), f"cookie {number}") for number in range(9)]
    assert told[:4] == [taken] * 4, "many share one address"
    assert set(told[5:]) == {whole}, "whoever takes all at one address"
    assert add(b"d", "", "9.9.9.9") == taken, "keeps nobody else out"
    monkeypatch.setattr(module, "UNUSED_SECONDS", -1.0)
    site.uploads.expire([])
    assert add(b"b", "anna") == taken


BROKEN = {
    "drips": ([HEAD, *[b"x"] * 400, TAIL], 0.05, 408),
    "stops": ([HEAD], 30, 408),
    "says nothing": ([b""], 30, 408),
    "ends": ([HEAD, b"x" * 99], 0, 200),
    "no form": ([b"no form"], 0, 400),
    "no head": ([HEAD[:30], TAIL], 0, 413),
    "no file": ([HEAD.replace(b'; filename="zeros.mp4"', b""), b"x", TAIL], 0, 400),
}


@pytest.mark.parametrize("how", BROKEN)
def test_no_slow_or_broken_upload_stays(how: str, site: Site, monkeypatch: Patch) -> None:
    monkeypatch.setattr(routes, "PAUSE_SECONDS", 0.4)
    pieces, pause, status = BROKEN[how]
    response = post(site, pieces, pause)
    assert response.status_code == status
    assert status != 200 or response.body == b"[]"
    assert [*(site.folder / "uploads").iterdir()] == []


def send(server: Server, size: int) -> tuple[int, str]:
    """Upload a file of `size` zeros."""
    pieces = [HEAD, *[bytes(2**20)] * (size // 2**20), bytes(size % 2**20), TAIL]
    told = {"Content_Type": FORM, "Content_Length": str(sum(map(len, pieces)))}
    return ask(server, "POST", "gradio_api/upload", pieces, **told)


def test_broken_and_too_large_uploads_leave_no_file_and_no_traceback(answering: Server) -> None:
    before = sorted(files(answering.folder))
    status, told = send(answering, LIMIT + 1)
    assert (status, str(LIMIT) in told, told[-1]) == (413, True, ".")
    for number in range(0, 120, 20):
        announced = f"Content-Type: {FORM}\r\nContent-Length: {2**20}\r\n\r\n"
        head = f"POST /gradio_api/upload HTTP/1.1\r\nHost: 127.0.0.1\r\n{announced}"
        with socket.create_connection(("127.0.0.1", urlsplit(answering.url).port or 0)) as sent:
            sent.sendall(head.encode() + HEAD + bytes(1000 * number))
            sent.shutdown(socket.SHUT_WR)
            while sent.recv(4096):
                pass
    until(lambda: sorted(files(answering.folder)) == before)
    assert "Error" not in answering.log.read_text()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs prlimit")
def test_a_full_disk_is_a_sentence_and_leaves_no_half_file(answering: Server, clips: Clips) -> None:
    """Stands for a full disk: no file of the server may grow beyond 100 kB."""
    before, pid = sorted(files(answering.folder)), answering.process.pid
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    status, told = send(answering, 3_000_000)
    assert (status, told[-1:], "\n" in told) == (507, ".", False)
    assert sorted(files(answering.folder)) == before
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    assert send(answering, 3_000_000)[0] == 200
    assert answers(answering, *uploaded(answering, clips), "A block.")[-1]["labels"]
    assert "Traceback" not in answering.log.read_text()


def arrive(site: Site, name: str) -> Path:
    """An upload that has arrived whole."""
    with site.uploads.arrivals() as arrivals:
        folder = arrivals / name.replace(".", "-")
        folder.mkdir()
        (folder / name).write_bytes(b"x")
        return site.uploads.keep(folder / name, UNKNOWN)


def test_a_copy_leads_back_to_its_original(site: Site, tmp_path: Path) -> None:
    """What browsers play needs none."""
    uploads, clip = site.uploads, write_clip(tmp_path / "clip.mkv", 6)
    plays = write_clip(tmp_path / "clip.mp4", 6)
    for path in (uploads.make_playable(plays, UNKNOWN), uploads.playable_of(plays)):
        assert uploads.original_of(path) == path == plays
    copy = uploads.make_playable(clip, UNKNOWN)
    assert copy == uploads.playable_of(clip) != clip
    full = Visitor("one whose share is full", "home")
    site.uploads.shares.take("all", full, 500e6)
    assert uploads.make_playable(clip, full) == copy, "it was made for somebody else"
    for shown in (copy, tmp_path / "elsewhere" / copy.name):
        assert uploads.original_of(shown) == clip
    copy.unlink()
    assert uploads.playable_of(clip) == clip


def test_files_that_nobody_uses_are_deleted(site: Site, monkeypatch: Patch) -> None:
    unused, judged, odd = (arrive(site, name) for name in ("a.mp4", "b.mp4", "trace.json"))
    original, uploads = write_clip(arrive(site, "clip.mkv"), 6), site.uploads
    copy = uploads.make_playable(original, UNKNOWN)
    gradios = site.folder / "uploads" / "cache" / copy.name
    gradios.parent.mkdir()
    gradios.write_bytes(copy.read_bytes())
    uploads.expire([judged])
    assert odd.exists(), "ten minutes are not over"
    monkeypatch.setattr(module, "UNUSED_SECONDS", -1.0)
    uploads.expire([judged, original])
    every = unused, odd, judged, original, copy, gradios
    assert [path for path in every if path.exists()] == [judged, original, copy, gradios]
    for _ in range(2):
        uploads.expire([])
    assert [*files(site.folder / "uploads"), *files(site.folder / "copies")] == []
    uploads.shares.take("whole", Visitor("anna"), BYTES.each)


def test_the_video_of_a_player_stays_however_often_the_other_one_changes() -> None:
    session, (stays, *others) = Session("a page"), [Path(f"{number}.mp4") for number in range(7)]
    session.players[1].held.extend((stays, stays))
    for number, other in enumerate(others):
        if number == 3:
            session.players.reverse()  # the video that stays is in the first player now
        session.players[0 if number < 3 else 1].held.extend((other, other))
    assert {path for each in session.players for path in each.held} == {stays, *others[-2:]}


def test_uploads_that_nobody_asks_for_are_forgotten(monkeypatch: Patch) -> None:
    progress, sweeps = FileUploadProgress(), ForgottenUploads()
    monkeypatch.setattr(gradio.routes, "file_upload_statuses", progress)
    with contextlib.suppress(TimeoutError):
        run_in_thread(asyncio.wait_for(progress.is_tracked("asked for, and never sent"), 0.01))
    progress.track("goes on")
    progress.set_done("over")
    for known in (3, 1, 1):
        sweeps.sweep()
        assert len(progress._signals) == known  # what Gradio keeps of each for good
    progress.set_done("goes on")
    sweeps.sweep()
    assert not progress._signals


def test_downloads_that_stall_hold_up_nothing_else(site: Site, monkeypatch: Patch) -> None:
    answered, video = threading.Event(), site.folder / "a video"
    monkeypatch.setattr(module, "fetch_video", lambda *_, **__: answered.wait(PATIENCE_S) and video)
    video.write_bytes(b"x")

    async def scenario() -> list[Path]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        fetched = [site.uploads.fetch_beside("https://a.example", UNKNOWN) for _ in range(9)]
        stalled = [asyncio.create_task(each) for each in fetched]
        await asyncio.sleep(0)
        await asyncio.to_thread(answered.set)
        return await asyncio.gather(*stalled)

    assert run_in_thread(scenario()) == [video] * 9


FULL_DISK = Mock(side_effect=OSError(28, "No space left on device"))
NO_ROOM = Mock(side_effect=BadInput("No room."))
BUSY = Mock(side_effect=VideoUnavailable("It cannot be opened now."))
CAUSES = {
    "would have more than 0 MB: cut it shorter.": (browser_copies, "MAX_COPY_BYTES", 100),
    "could be kept: No space left on device.": (browser_copies, "atomic_path", FULL_DISK),
    "copy of old.avi; try again in ten minutes.": (Shares, "take", NO_ROOM),
    "cannot be opened now.": (module, "playable_copy", BUSY),
}


@pytest.mark.parametrize("said", CAUSES)
def test_a_video_without_a_copy_is_held(said: str, site: Site, monkeypatch: Patch) -> None:
    """And counted; one that cannot be read now may be compared later."""
    old, good = write_old(arrive(site, "old.avi")), write_clip(site.folder / "good.mp4", 6)
    monkeypatch.setattr(*CAUSES[said])
    names = {"status": "status", "prompt": "prompt", "scope": "scope"}
    parts: Any = SimpleNamespace(**names, videos=("first", "second"))
    parts.addresses, request = parts.videos, cast(Any, SimpleNamespace(session_hash="a page"))
    told, later = [], "now" in said
    for side, second in ((Side.FIRST, None), (Side.SECOND, str(good))):
        player = PlayerHandlers(Handlers(parts, site.services), side)
        values: Any = {"prompt": PROMPT, "first": str(old), "second": second}
        arrived = player.on_change(values, request)
        copied = run_in_thread(player.on_upload(values, request))
        told.append({**arrived, **copied}["status"])
    kept = "" if later else f" {words.NO_COPY}"
    assert told[0].endswith(f"{said}{kept} {words.ONE_VIDEO}")
    assert told[1] == (f"It {said} " if later else "") + words.READY_TO_COMPARE
    monkeypatch.setattr(module, "UNUSED_SECONDS", -1.0)
    site.uploads.expire(site.sessions.files())
    assert old.exists() or later
