"""Clips that are easily read wrongly, or called damaged: each gives the frames of a full sequential decode, or a true sentence."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.benchmarks import files
from tests.video.support.hostile_clips import ENCRYPTED, HOSTILE, copy_packets
from tests.video.support.open_clips import FIRST, PAIRED, opened, pixels
from tests.video.support.sequential_decode import decode
from tests.video.support.write_clips import truncated, write
from vrthinker_core.errors import VideoError

REFUSED = {"animated WebP"}
READ = sorted(HOSTILE.keys() - REFUSED)


def refusal(path: Path) -> str:
    with pytest.raises(VideoError) as caught:
        opened(path).close()
    return str(caught.value)


@pytest.mark.parametrize("read_mode", ["whole", "seek"])
@pytest.mark.parametrize("name", READ)
def test_every_slot_shows_the_frame_of_a_full_decode(
    name: str, read_mode: str, make_clip: Callable[[str], Path]
) -> None:
    path = make_clip(name)
    reference_frames = decode(path)
    with opened(path, read_mode=read_mode) as clip:
        frames = clip.frames(FIRST) + clip.frames(range(128))
        assert clip.info.frames == len(reference_frames) > 0
    wrong = [
        frame.ref.slot
        for frame in frames
        if frame.index != PAIRED.index(frame.ref.slot, len(reference_frames))
        or not np.array_equal(pixels(frame), reference_frames[frame.index][1])
    ]
    assert wrong == []


def test_key_frames_out_of_order_are_not_sought(make_clip: Callable[[str], Path]) -> None:
    for suffix in ("mp4", "mkv"):
        with opened(make_clip(f"swapped key frames, {suffix}"), read_mode="seek") as clip:
            assert clip.read_mode == "whole"


def far_fragment(path: Path) -> Path:
    """A fragment of an MP4 says that its data stands far behind the end of the file."""
    data = bytearray(
        write(path, 50, container={"movflags": "frag_keyframe+empty_moov"}).read_bytes()
    )
    start = data.index(b"tfhd", data.index(b"tfhd", data.index(b"tfhd") + 1) + 1) + 12
    data[start : start + 8] = struct.pack(">Q", 0x7F43_0000_0000_0000)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("part", [0.3, 0.5, 0.6, 0.8, "fragments"])
def test_a_seek_outside_the_file_is_an_error_of_the_container(
    part: float | str, tmp_path: Path
) -> None:
    """Such as a real file gives: an exception would end the run."""
    if isinstance(part, str):
        path = far_fragment(tmp_path / "far.mp4")
    else:
        path = truncated(
            tmp_path / "cut.nut", write(tmp_path / "whole.nut", 50, codec="mpeg4", options={}), part
        )
    with opened(path) as clip:
        assert 10 <= clip.info.frames == len(decode(path)) < 50
        assert any("ends early" in note for note in clip.info.notes)


@pytest.mark.parametrize("name", ["encrypted MP4", "encrypted Matroska"])
def test_an_encrypted_clip_is_called_encrypted(name: str, make_clip: Callable[[str], Path]) -> None:
    with opened(make_clip(name)) as clip:
        assert any("encrypted" in note for note in clip.info.notes)


def test_an_encrypted_clip_of_which_nothing_is_read_is_called_encrypted(tmp_path: Path) -> None:
    large = write(
        tmp_path / "large.mp4", 3, size=(640, 480), options={"preset": "ultrafast", "qp": "5"}
    )
    fragments = {**ENCRYPTED, "movflags": "frag_keyframe+empty_moov"}
    cut = truncated(
        tmp_path / "cut.mp4",
        copy_packets(tmp_path / "fragments.mp4", large, options=fragments),
        0.0,
    )
    content = (tmp_path / "fragments.mp4").read_bytes()
    cut.write_bytes(content[: content.index(b"senc") + 20])
    assert refusal(cut).startswith("cut.mp4 is encrypted")


def test_animated_images_that_cannot_be_decoded_are_called_so(
    make_clip: Callable[[str], Path], tmp_path: Path
) -> None:
    sentence = (
        "moving.webp is an animated WebP, which cannot be decoded here: convert it to MP4 first."
    )
    assert refusal(make_clip("animated WebP")) == sentence
    (tmp_path / "cut.webp").write_bytes(make_clip("animated WebP").read_bytes()[:18])
    assert refusal(tmp_path / "cut.webp") == "cut.webp is an image (WebP), not a video."


def test_still_images_of_the_same_containers_are_refused_as_images(
    tmp_path: Path, make_clip: Callable[[str], Path]
) -> None:
    jpeg_2000 = tmp_path / "still.mj2"
    jpeg_2000.write_bytes(
        b"\0\0\0\x0cjP  \r\n\x87\n" + struct.pack(">I4s4sI", 16, b"ftyp", b"jp2 ", 0) + bytes(64)
    )
    assert refusal(jpeg_2000) == "still.mj2 is an image (JPEG 2000), not a video."
    animated = make_clip("animated PNG").read_bytes()
    start = animated.index(b"acTL") - 4
    (tmp_path / "still.png").write_bytes(animated[:start] + animated[start + 20 :])
    assert refusal(tmp_path / "still.png") == "still.png is an image (PNG), not a video."
    if "AVIF sequence" in HOSTILE:
        still = write(tmp_path / "still.avif", 1, codec="libsvtav1", options={"preset": "12"})
        assert refusal(still) == "still.avif is an image (AVIF), not a video."
        still.write_bytes(still.read_bytes().replace(b"ftypavif", b"ftypavis"))
        assert refusal(still) == "still.avif holds a still picture, no video."


def test_the_sweep_finds_a_wrong_file_and_ends_with_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "clip.mp4", 9)
    (tmp_path / "notes.txt").write_text("No video.")
    monkeypatch.setattr("sys.argv", ["files", str(tmp_path), "--quick"])
    files.main()
    assert '"exact": 1, "named": 1, "wrong": 0' in capsys.readouterr().out
    monkeypatch.setattr(files, "digest", lambda pixels: "another picture")
    with pytest.raises(SystemExit) as ended:
        files.main()
    assert ended.value.code == 1
    assert "16 slots of 16 differ" in capsys.readouterr().out


def test_the_sweep_finds_a_slot_that_was_not_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "clip.mp4", 9)
    monkeypatch.setattr("sys.argv", ["files", str(tmp_path), "--quick"])

    @contextmanager
    def without_the_last_slot(*arguments: Any, **options: Any) -> Iterator[SimpleNamespace]:
        with opened(*arguments, **options) as clip:
            yield SimpleNamespace(info=clip.info, stream=lambda slots: clip.stream(slots[:-1]))

    monkeypatch.setattr(files, "opened", without_the_last_slot)
    with pytest.raises(SystemExit):
        files.main()
    assert "1 slots of 16 differ" in capsys.readouterr().out
