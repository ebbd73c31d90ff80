"""The run store: what is put comes back, within an age and a number of bytes, whatever else happens in its folder."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.waiting import until
from tests.ui.sessions.test_sessions import files
from tests.ui.support import handmade_runs
from vrthinker_core.errors import TraceError
from vrthinker_core.types.events import Trace
from vrthinker_core.ui import run_store
from vrthinker_core.ui.run_store import RunRecord, RunStore, record_of, usable_folder
from vrthinker_core.ui.shared_traces import SharedTraces

ANNA, BERT = "a" * 64, "b" * 64
TRACE = handmade_runs.three_turns()
DAY = 24 * 3600.0


def name(number: int) -> str:
    return f"{number:024x}"


def record(owner: str = ANNA, begun: float = 0.0, keep: float = DAY) -> RunRecord:
    return record_of(owner, TRACE, begun, time.time() + keep)


def video(folder: Path, number: int, size: int = 1000) -> Path:
    path = folder / f"{number}.mp4"
    path.write_bytes(bytes([number]) * size)
    return path


def kept_videos(folder: Path) -> list[bytes]:
    return sorted(path.read_bytes()[:1] for path in (folder / "videos").iterdir())


def test_a_run_comes_back_as_it_was_also_after_a_restart(tmp_path: Path) -> None:
    both = [video(tmp_path, 1), video(tmp_path, 2)]
    put = RunStore(tmp_path / "runs").put(name(1), record(), TRACE, both)
    opened = RunStore(tmp_path / "runs")
    assert opened.records() == {name(1): put}
    assert opened.trace(name(1)) == TRACE
    assert put is not None
    assert [path.read_bytes() for path in opened.videos(put)] == [
        path.read_bytes() for path in both
    ]
    assert [path.exists() for path in both] == [True, True], "nobody's file is moved"


def test_a_video_is_kept_once_and_as_long_as_a_run_needs_it(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    store, one, two, three = RunStore(folder), *(video(tmp_path, number) for number in (1, 2, 3))
    store.put(name(1), record(), TRACE, [one, two])
    store.put(name(2), record(), TRACE, [two, three])
    assert kept_videos(folder) == [b"\1", b"\2", b"\3"]
    store.remove([name(1)])
    assert kept_videos(folder) == [b"\2", b"\3"]
    store.remove([name(2)])
    assert [path.name for path in files(folder)] == ["lock"]


def test_only_files_that_nobody_else_writes_to_are_linked(tmp_path: Path) -> None:
    ours, theirs = video(tmp_path, 1), video(tmp_path, 2)
    store = RunStore(tmp_path / "runs", is_ours=lambda path: path == ours)
    kept = store.put(name(1), record(), TRACE, [ours, theirs])
    assert kept is not None
    theirs.write_bytes(b"edited")
    first, second = store.videos(kept)
    assert first.stat().st_ino == ours.stat().st_ino
    assert second.read_bytes() == bytes([2]) * 1000


def test_the_oldest_go_first_until_all_fit(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs", max_bytes=200_000)
    for number in (3, 1, 2, 5, 4):
        store.put(name(number), record(begun=number), TRACE, [video(tmp_path, number, 60_000)])
    kept = list(store.records())
    assert kept == [name(4), name(5)][-len(kept) :]
    assert kept
    assert sum(path.stat().st_size for path in files(tmp_path / "runs")) <= 200_000
    store.put(name(6), record(begun=6), TRACE, [video(tmp_path, 6, 150_000)])
    assert store.records()[name(6)].videos == (), (
        "a video of more than half of the bytes would push out all others"
    )


def test_a_run_is_kept_for_its_time_and_no_longer(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs")
    store.put(name(1), record(keep=-1), TRACE, [video(tmp_path, 1)])
    store.put(name(2), record(), TRACE)
    assert list(store.records()) == [name(2)]
    assert store.get(name(1)) is None
    with pytest.raises(TraceError, match="is gone"):
        store.trace(name(1))
    store.sweep()
    assert {path.name for path in files(tmp_path / "runs")} == {"lock", f"{name(2)}.json"}


def test_a_run_that_was_deleted_is_not_put_again(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs")
    assert store.put(name(1), record(), TRACE) is not None
    assert store.put(name(1), record(), TRACE, again=True) is not None
    RunStore(tmp_path / "runs").remove([name(1)])  # by another server
    assert store.put(name(1), record(), TRACE, again=True) is None
    assert store.records() == {}


def told(**damage: object) -> bytes:
    return json.dumps(
        {"owner": ANNA, "prompt": "", "judge": "", "begun": 0, "until": 1e12} | damage
    ).encode()


DAMAGES: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"{" * 50_000,
    "no text": b"\xff" * 100,
    "large": b"[" + b"1," * 10**6 + b"1]",
    "another shape": b'{"owner": 1}',
    "no visitor": told(owner="../x"),
    "a visitor and a line": told(owner=f"{ANNA}\n"),
    "a foreign file": told(videos=["../../secret"]),
    "three files": told(videos=["0" * 64] * 3),
    "a link to a file": told(origin="../../secret"),
    "a long name": told(branch="x" * 401),
    "a time that cannot be": told(begun=-1),
    "no end": told(until=math.inf),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_record_is_skipped_and_goes_with_the_others_of_its_age(
    tmp_path: Path, damage: bytes
) -> None:
    store = RunStore(tmp_path)
    store.put(name(1), record(), TRACE)
    store.put(name(2), record(), TRACE)
    damaged = tmp_path / "records" / f"{name(1)}.json"
    damaged.write_bytes(damage)
    opened = RunStore(tmp_path)
    assert list(opened.records()) == [name(2)]
    assert damaged.exists()
    os.utime(damaged, (1e9, 1e9))
    opened.sweep()
    assert {path.name for path in files(tmp_path)} == {"lock", f"{name(2)}.json"}


def test_a_damaged_trace_is_refused_with_a_sentence(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    store.put(name(1), record(), TRACE)
    (tmp_path / "traces" / f"{name(1)}.json").write_bytes(b'{"started": 5}')
    with pytest.raises(TraceError, match="not a VR-Thinker trace"):
        store.trace(name(1))


@pytest.mark.parametrize(
    "wrong", ["", "x", "../records/a", "0" * 24, "0" * 23 + "G", "..%2f" * 5, "a" * 5000, "\0"]
)
def test_no_other_name_finds_anything(tmp_path: Path, wrong: str) -> None:
    store = RunStore(tmp_path)
    store.put(name(1), record(), TRACE)
    assert store.get(wrong) is None
    with pytest.raises(TraceError):
        store.trace(wrong)
    with pytest.raises(TraceError, match="was deleted"):
        SharedTraces(store).get(wrong)


def put_for_ever(folder: Path, first: int) -> None:
    store = RunStore(folder)
    for number in range(first, first + 10**6):
        store.put(
            name(number),
            record(begun=number),
            TRACE,
            [video(folder.parent, number % 100 + 1, 200_000)],
        )


def started(target: Callable[..., None], *args: object) -> multiprocessing.process.BaseProcess:
    process = multiprocessing.get_context("forkserver").Process(target=target, args=args)
    process.start()
    return process


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is locked here")
def test_what_a_killed_server_left_is_removed_and_nothing_of_one_that_lives(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    mine = RunStore(folder)
    mine.put(name(10**9), record(begun=10**9), TRACE, [video(tmp_path, 0)])
    writer = started(put_for_ever, folder, 1)
    for _ in range(3):
        until(lambda: len(mine.records()) > 3)
        os.kill(writer.pid or 0, signal.SIGKILL)
        writer.join()
        opened = RunStore(folder)
        records = opened.records()
        assert name(10**9) in records
        assert all(opened.trace(each) == TRACE for each in records)
        assert all(len(opened.videos(each)) == 1 for each in records.values())
        named = {f"{each}.json" for each in records} | {
            video for each in records.values() for video in each.videos
        }
        assert {path.name for path in files(folder)} == named | {"lock"}
        opened.remove([each for each in records if each != name(10**9)])
        writer = started(put_for_ever, folder, 1)
    writer.kill()
    writer.join()


def test_a_link_shows_the_same_trace_and_ends_with_its_run(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs")
    shared = SharedTraces(store)
    store.put(name(1), record(), TRACE)
    store.put(name(2), record(), TRACE)
    link = shared.add(name(1), TRACE, ANNA, [video(tmp_path, 1)])
    assert shared.get(link) == TRACE
    assert shared.add(name(1), TRACE, ANNA) == link
    longer = Trace(replace(TRACE.started, notes=("More.",)), TRACE.turns, TRACE.finished)
    others = {
        shared.add(name(2), TRACE, ANNA),
        shared.add(name(1), longer, ANNA),
        shared.add(name(1), TRACE, BERT),
    }
    assert link not in others
    assert len(others) == 3
    again = SharedTraces(RunStore(tmp_path / "runs"))
    assert again.get(link) == TRACE
    assert len(again.videos(link)) == 1
    assert not again.has(name(1)), "a run is no link: its name opens it for its visitor alone"
    store.remove([name(1)])
    with pytest.raises(TraceError, match="was deleted"):
        again.get(link)


def test_a_full_disk_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    store = RunStore(tmp_path)
    monkeypatch.setattr(run_store, "write_atomically", full)
    with pytest.raises(OSError, match="No space left"):
        store.put(name(1), record(), TRACE)
    with pytest.raises(OSError, match="No space left"):
        SharedTraces(store).add(name(1), TRACE)
    assert store.records() == {}


def test_runs_go_to_the_folder_that_was_named_or_the_first_that_can_be_written(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    assert usable_folder(tmp_path / "named", {}) == tmp_path / "named"
    assert usable_folder(tmp_path / "file" / "below", {}) is None
    assert (
        usable_folder(None, {"XDG_CACHE_HOME": str(tmp_path), "HOME": "/nowhere"})
        == tmp_path / "vr-thinker" / "runs"
    )
    assert usable_folder(None, {"XDG_CACHE_HOME": str(tmp_path / "file")}) is None
    assert usable_folder(None, {}) is None
