"""`--trace` and `trace=` replace a trace, or nothing: whatever else is there stays as it is, and the run does not begin."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.support.engines import ENGINES, Engine, end_of
from tests.test_cli import compare
from tests.test_judge import ANSWER, CALL
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.errors import JudgeError
from vrthinker_core.runner import judge, judge_many
from vrthinker_core.traces import load
from vrthinker_core.types import StopReason, VideoPair
from vrthinker_core.types.events import Finished, FramesShown

Place = Callable[[Path], Path]


def made(name: str, make: Callable[[Path, Path], object]) -> Place:
    """What `make` puts at that name, given it and its folder."""

    def place(folder: Path) -> Path:
        make(folder / name, folder)
        return folder / name

    return place


def written(name: str, content: bytes) -> Place:
    return made(name, lambda path, _: path.write_bytes(content))


def half_a_trace(folder: Path) -> Path:
    content = (folder / "earlier.json").read_bytes()
    return written("half.json", content[: len(content) // 2])(folder)


def link_to(target: str) -> Place:
    return made("link.json", lambda path, folder: path.symlink_to(folder / target))


def device(folder: Path) -> Path:
    """A device node of the test's own, as /dev/null is one: that of the machine is never risked."""
    try:
        os.mknod(folder / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except OSError:
        pytest.skip("only root makes device nodes")
    return folder / "device"


PLACES: dict[str, Place] = {
    "the input video": lambda folder: folder / "one.mp4",
    "a hard link to it": made("again.mp4", lambda path, at: path.hardlink_to(at / "one.mp4")),
    "a link to it": link_to("one.mp4"),
    "a link to a trace": link_to("earlier.json"),
    "a link to nothing": link_to("nothing.json"),
    "another JSON file": written("other.json", b'{"started": {}, "format": "vr-thinker-trace/1"}'),
    "half a trace": half_a_trace,
    "a text": written("thesis.txt", b"A thesis."),
    "an empty file": written("empty.json", b""),
    "a folder": lambda folder: folder,
    "a FIFO": made("pipe", lambda path, _: os.mkfifo(path)),
    "a device": device,
}


@pytest.fixture(scope="module")
def earlier(clips: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A trace of the videos."""
    path = tmp_path_factory.mktemp("earlier") / "run.json"
    list(judge(VideoPair("p", *clips), ScriptedBackend([ANSWER]), trace=path))
    return path.read_bytes()


@pytest.fixture
def folder(clips: tuple[Path, Path], earlier: bytes, tmp_path: Path) -> Path:
    """A folder with two videos and an earlier trace of them."""
    for clip in clips:
        (tmp_path / clip.name).write_bytes(clip.read_bytes())
    (tmp_path / "earlier.json").write_bytes(earlier)
    return tmp_path


def own_pair(folder: Path) -> VideoPair:
    return VideoPair("p", folder / "one.mp4", folder / "two.mp4")


def listing(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Everything about the files of a folder that must not change."""
    found = {}
    for path in folder.iterdir():
        about = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(about.st_mode) else b""
        found[path.name] = (about.st_mode, about.st_ino, about.st_mtime_ns, content)
    return found


def test_the_command_refuses_before_it_opens_a_judge(folder: Path) -> None:
    before = listing(folder)
    video = folder / "one.mp4"
    done = compare((video, folder / "two.mp4"), "scripted:no-such-script", "--trace", video)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{video} exists and is not a trace")
    assert listing(folder) == before


@pytest.mark.parametrize("engine", [*ENGINES][:3], indirect=True)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_run_ends_before_the_judge_is_asked(engine: Engine, folder: Path, place: Place) -> None:
    path = place(folder)
    before = listing(folder)
    engine = replace(engine, pair=own_pair(folder), path=path)
    events = list(engine.start(ScriptedBackend([CALL, ANSWER])))
    end = end_of(events)
    assert (end.stop, end.fault, end.verdict) == (StopReason.FAILED, "BadInput", None)
    assert str(path) in end.error
    assert not any(isinstance(event, FramesShown) for event in events)
    assert listing(folder) == before


def test_a_name_that_cannot_be_is_refused_in_a_sentence(folder: Path) -> None:
    end = end_of(judge(own_pair(folder), ScriptedBackend([ANSWER]), trace=folder / "a\0b.json"))
    assert (end.fault, "NUL" in end.error) == ("BadInput", True)


@pytest.mark.parametrize(
    "place",
    ["a" * 300 + "/trace.json", "thesis.txt/trace.json", "missing/\udcff.json"],
    ids=["a name too long", "a folder that is a file", "a name that is no text"],
)
def test_a_place_that_cannot_be_written_costs_no_run_and_the_record_says_where_it_went(
    folder: Path, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "thesis.txt").write_text("A thesis.")
    spare = tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spare))
    places = {0: folder / place, 1: folder / "second.json"}
    pairs, backend = [own_pair(folder)] * 2, ScriptedBackend([ANSWER])
    events = judge_many(pairs, backend, trace_of=places.get)
    ends = [event for _, event in events if isinstance(event, Finished)]
    assert [end.stop for end in ends] == [StopReason.ANSWERED] * 2
    saved = load(next(spare.glob("vr-thinker-*/trace.json")))
    assert [note.count("saved as") for note in saved.finished.notes] == [2]
    assert load(places[1]).finished is not None


def test_a_new_file_and_an_earlier_trace_are_written(folder: Path) -> None:
    twos = ANSWER.replace("OA=1", "OA=2")
    for name in ("new.json", "earlier.json"):
        list(judge(own_pair(folder), ScriptedBackend([twos]), trace=folder / name))
        assert load(folder / name).finished.verdict.labels["OA"] == 2


def test_a_trace_that_a_killed_run_left_is_replaced(folder: Path) -> None:
    killed = folder / "killed.json"
    events = judge(own_pair(folder), ScriptedBackend([ANSWER]), trace=killed)
    next(events)
    unfinished = killed.read_bytes()
    del events
    killed.write_bytes(unfinished)
    assert load(killed).finished is None
    *_, end = judge(own_pair(folder), ScriptedBackend([ANSWER]), trace=killed)
    assert load(killed).finished == end


def test_a_run_in_which_the_judge_wrote_nothing_replaces_no_run_in_which_it_did(
    folder: Path, earlier: bytes
) -> None:
    path, pair = folder / "earlier.json", own_pair(folder)
    for given, backend, stopped in (
        (replace(pair, first=folder / "no.mp4"), ScriptedBackend([ANSWER]), False),
        (pair, ScriptedBackend([ANSWER]), True),
        (pair, ScriptedBackend([JudgeError("The server is gone.")]), False),
    ):
        end = end_of(judge(given, backend, trace=path, cancelled=partial(bool, stopped)))
        assert end.verdict is None
        told = f"{path} still holds the earlier run: in this one the judge wrote nothing."
        assert end.notes == (told,)
        assert path.read_bytes() == earlier
