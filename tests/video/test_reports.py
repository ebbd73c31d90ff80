"""Files of public reports and their kin: pauses, held frames, bytes behind the end, cropping, transparency."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from tests.video.support.open_clips import opened, pixels
from tests.video.support.write_clips import FAST_VP8, write, x264
from vrthinker_core.types import ClipInfo
from vrthinker_core.video.browser_copies import playable_copy
from vrthinker_core.video.timeline import make_frame_times

EVEN = [index * 40 for index in range(50)]
GIF = {"codec": "gif", "pix_fmt": "rgb8", "options": {}}
APNG = {"codec": "apng", "pix_fmt": "rgb24", "options": {}}
PLAIN = x264("bframes=0")
"""Frames that are stored as they are shown."""


def info(path: Path) -> ClipInfo:
    with opened(path) as clip:
        return clip.info


def held(path: Path, source: Path, seconds: float, form: str | None = None) -> Path:
    """The same packets; the last one says that its frame stays so long."""
    with av.open(str(source)) as before, av.open(str(path), "w", format=form) as after:
        stream = after.add_stream_from_template(before.streams.video[0])
        packets = [packet for packet in before.demux(video=0) if packet.size]
        packets[-1].duration = round(seconds / packets[-1].time_base)
        for packet in packets:
            packet.stream = stream
            after.mux(packet)
    return path


@pytest.mark.parametrize("place", [0, 1, 25, 48])
def test_a_pause_that_the_file_tells_of_keeps_its_time(place: int) -> None:
    stamps = [each + 60_000 * (number > place) for number, each in enumerate(EVEN)]
    times = make_frame_times(stamps, Fraction(1, 1000), Fraction(25), told=62.0)
    assert times.starts == pytest.approx([stamp / 1000 for stamp in stamps])
    assert (times.estimated, times.left_out) == (0, 0)


def test_a_pause_that_nothing_tells_of_is_left_out_and_said() -> None:
    stamps = [*EVEN[:-1], 62_000]
    times = make_frame_times(stamps, Fraction(1, 1000), Fraction(25))
    assert times.seconds == pytest.approx(2)
    assert (times.estimated, times.left_out) == (1, pytest.approx(60.08))


@pytest.mark.parametrize("name", ["clip.mp4", "clip.mkv", "clip.webm", "clip.gif"])
def test_a_pause_near_the_end_is_kept_in_every_container(name: str, tmp_path: Path) -> None:
    stamps = [*(number * 100 for number in range(20)), 62_000]
    how = {".gif": GIF, ".webm": FAST_VP8}.get(Path(name).suffix, PLAIN)
    clip = write(tmp_path / name, 21, pts=stamps, **how)
    with opened(clip) as open_clip:
        assert open_clip.frames([127])[0].seconds == pytest.approx(62)
        assert "to 60.1" in str(open_clip.info.notes)
        assert "missing or wrong" not in str(open_clip.info.notes)
    if copy := playable_copy(clip, tmp_path / "copies"):
        with opened(copy) as open_copy:
            assert open_copy.frames([127])[0].seconds == pytest.approx(62, abs=0.01)


@pytest.mark.parametrize("name", ["clip.mp4", "clip.mkv", "clip.webm", "clip.gif", "clip.flv"])
def test_a_held_last_frame_counts_in_the_players_copy_too(name: str, tmp_path: Path) -> None:
    how = {".gif": GIF, ".webm": FAST_VP8}.get(Path(name).suffix, PLAIN)
    plain = write(tmp_path / f"plain{Path(name).suffix}", 10, rate=10, **how)
    clip = held(tmp_path / name, plain, 5)
    found = info(clip)
    assert found.seconds == pytest.approx(5.9, abs=0.02)
    assert not any(note.startswith("The file ends early") for note in found.notes)
    if copy := playable_copy(clip, tmp_path / "copies"):
        assert info(copy).seconds == pytest.approx(5.9, abs=0.02)


@pytest.mark.parametrize(
    ("name", "how", "cut"),
    [("clip.gif", GIF, 3), ("clip.apng", APNG, 40), ("clip.ts", {}, 100)],
    ids=["GIF", "APNG", "transport stream"],
)
def test_bytes_behind_a_whole_file_are_no_damage(
    name: str, how: dict[str, object], cut: int, tmp_path: Path
) -> None:
    clip, behind, short = write(tmp_path / name, 10, **how), tmp_path / f"b{name}", tmp_path / name
    whole = clip.read_bytes()
    for more in (bytes(3000), b"\xff" * 77):
        behind.write_bytes(whole + more)
        assert "ends early" not in str(info(behind).notes)
    short.write_bytes(whole[:-cut])
    assert "ends early" in str(info(short).notes)


def with_aperture(data: bytes, width: int, height: int) -> bytes:
    """An MP4 whose header shows only the middle of each picture."""
    return with_box(data, struct.pack(">I4sIIIIiIiI", 40, b"clap", width, 1, height, 1, 0, 1, 0, 1))


def with_box(data: bytes, box: bytes) -> bytes:
    """An MP4 with one more box in the description of its video."""
    entry = data.index(b"avc1", data.index(b"stsd")) - 4
    end = entry + int.from_bytes(data[entry : entry + 4])
    made = bytearray(data[:end] + box + data[end:])
    for name in (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd"):
        at = made.index(name) - 4
        made[at : at + 4] = (int.from_bytes(made[at : at + 4]) + len(box)).to_bytes(4)
    made[entry : entry + 4] = (end - entry + len(box)).to_bytes(4)
    return bytes(made)


def with_track_part(data: bytes, added: bytes, of_video: bool = True) -> bytes:
    """A Matroska file whose track, or its description of the video, has one more part."""
    made, tracks = bytearray(data), data.rindex(b"\x16\x54\xae\x6b")  # behind the contents
    video = re.compile(rb"\xe0(?:[\x80-\xff]|[\x40-\x7f].|\x01.{7})\xb0", re.DOTALL)
    track = data.index(b"\xae", tracks + 4)
    starts = [data.index(b"\x18\x53\x80\x67") + 4, tracks + 4, track + 1]
    for at in starts + [video.search(data, track).start() + 1] * of_video:
        length = 9 - made[at].bit_length()
        size = int.from_bytes(made[at : at + length]) + len(added)
        made[at : at + length] = size.to_bytes(length)
        end = at + length
    return bytes(made[:end] + added + made[end:])


CROPS: dict[str, Callable[[bytes], bytes]] = {
    "clip.mp4": lambda data: with_aperture(data, 96, 32),
    "clip.mov": lambda data: with_aperture(data, 96, 32),
    "clip.mkv": lambda data: with_track_part(data, bytes.fromhex("54bb8110 54aa8110")),
}


@pytest.mark.parametrize("name", CROPS)
def test_cropping_that_the_file_declares_is_applied(name: str, tmp_path: Path) -> None:
    bare = {"container": {"write_crc32": "0"}} if name.endswith(".mkv") else {}
    whole = write(tmp_path / f"whole{Path(name).suffix}", 5, **bare)
    (clip := tmp_path / name).write_bytes(CROPS[name](whole.read_bytes()))
    with opened(whole) as uncut, opened(clip) as cut:
        (full,), (part,) = uncut.frames([0]), cut.frames([0])
        assert (cut.info.width, cut.info.height) == (part.width, part.height) == (96, 32)
        assert np.array_equal(pixels(part), pixels(full)[16:48])
        assert "Cut to 96 x 32, as the file asks." in cut.info.notes
    with opened(playable_copy(clip, tmp_path / "copies") or whole) as copy:
        assert (copy.info.width, copy.info.height) == (96, 32), "the player shows the same"
        difference = pixels(copy.frames([0])[0]).astype(int) - pixels(part)
    assert np.abs(difference).mean() < 6


def test_cropping_that_cannot_be_is_ignored(tmp_path: Path) -> None:
    clip = write(tmp_path / "clip.mp4", 5)
    clip.write_bytes(with_aperture(clip.read_bytes(), 200, 32))
    assert (info(clip).height, "Cut" in str(info(clip).notes)) == (64, False)


def test_transparency_has_a_note_and_the_player_shows_what_the_judge_sees(tmp_path: Path) -> None:
    faint = [np.full((64, 96, 4), alpha, np.uint8) for alpha in (255, 128)]
    for picture, noted in zip(faint, (False, True), strict=True):
        clip = tmp_path / f"{noted}.apng"
        with av.open(str(clip), "w", format="apng") as output:
            stream = output.add_stream("apng", rate=10)
            stream.width, stream.height, stream.pix_fmt = 96, 64, "rgba"
            for _ in range(3):
                output.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgba")))
            output.mux(stream.encode())
        assert ("transparent" in str(info(clip).notes)) is noted
    clear = write(tmp_path / "clear.webm", 5, **FAST_VP8, pix_fmt="yuva420p")
    with opened(clear) as judged, opened(playable_copy(clear, tmp_path / "copies")) as played:
        assert "transparent" in str(judged.info.notes)
        seen, shown = (pixels(clip.frames([4])[0]).astype(int) for clip in (judged, played))
    assert np.abs(seen - shown).mean() < 6


@pytest.mark.parametrize("profile", [5, 8])
@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_dolby_vision_has_a_note_if_it_cannot_be_read(
    suffix: str, profile: int, tmp_path: Path
) -> None:
    clip = write(
        tmp_path / f"clip{suffix}", 5, container={"write_crc32": "0"} if suffix == ".mkv" else None
    )
    facts = bytes((1, 0, profile << 1)).ljust(24, b"\0")
    mapping = b"\x41\xe7\x84dvcC\x41\xed\x98" + facts
    part = b"\x41\xe4" + bytes([0x80 + len(mapping)]) + mapping
    whole, box = clip.read_bytes(), struct.pack(">I4s", 32, b"dvcC") + facts
    marked = with_box(whole, box) if suffix == ".mp4" else with_track_part(whole, part, False)
    clip.write_bytes(marked)
    assert ("Dolby Vision" in str(info(clip).notes)) is (profile == 5)
