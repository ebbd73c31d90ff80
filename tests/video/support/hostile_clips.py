"""Write clips that are easily read wrongly: unusual metadata, timestamps out of order, damage, encryption, animated images."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np

from tests.video.support.write_clips import AV1, FAST_VP8, VP9, packets, write, x264

EVEN: dict[str, dict[str, Any]] = {"mp4": x264("bframes=0:scenecut=0"), "webm": VP9}
_KEY = "00112233445566778899aabbccddeeff"
ENCRYPTED = {"fflags": "bitexact", "encryption_scheme": "cenc-aes-ctr"}
ENCRYPTED |= {"encryption_key": _KEY, "encryption_kid": _KEY}
# Two elements of a Matroska track that take the same space: a name, and how its packets are encrypted, padded with a void element.
_NAME = b"\x53\x6e\xa7" + b"x" * 39
_CONTENT_ENCODINGS = (
    bytes.fromhex("6d80a5 6240a2 50318100 50328101 50338101 503593 47e18105 47e28c")
    + b"twelve bytes"
    + b"\xec\x80"
)


def copy_packets(
    path: Path, source: Path, pts: Sequence[int] = (), title: str = "", **how: Any
) -> Path:
    """The packets of a clip in another file, with other timestamps, or with a title in Latin-1."""
    opened, found = packets(source)
    with opened, av.open(str(path), "w", metadata_encoding="latin-1", **how) as output:
        stream = output.add_stream_from_template(opened.streams.video[0])
        if title:
            output.metadata["title"] = stream.metadata["title"] = title
        for index, packet in enumerate(found):
            packet.stream = stream
            if pts:
                packet.pts, packet.dts = pts[index], index * (packet.duration or 1) - max(pts)
            output.mux(packet)
    return path


def latin_1(folder: Path, suffix: str) -> Path:
    """A title that is not UTF-8."""
    source = write(folder / f"utf 8.{suffix}", **FAST_VP8 if suffix == "webm" else {})
    return copy_packets(folder / f"latin 1.{suffix}", source, title="Café")


def swapped(path: Path, source: Path, gop: int) -> Path:
    """Groups of `gop` frames are shown in the order 0, 2, 1, 4, 3, …: in the file the timestamps of key frames do not ascend."""
    opened, found = packets(source)
    opened.close()
    length = (found[0].duration or 1) * gop
    shifts = (length if n // gop % 2 else -length if n >= gop else 0 for n in range(len(found)))
    pts = [packet.pts + shift for packet, shift in zip(found, shifts, strict=True)]
    return copy_packets(path, source, pts)


def stamped(path: Path, source: Path, frame: int, place: float) -> Path:
    """The timestamp of one stored frame is wrong: that of the place between two others, after the last one, or far away."""
    opened, found = packets(source)
    opened.close()
    pts = [packet.pts for packet in found]
    step = (max(pts) - min(pts)) / (len(pts) - 1)
    pts[frame] = round(min(pts) + place * step)
    return copy_packets(path, source, pts)


def noisy(path: Path, source: Path, every: int, part: float) -> Path:
    """The last part of every so many packets is overwritten with noise: what it held is lost, and most decoders do not say so."""
    opened, found = packets(source)
    opened.close()
    data, rng = bytearray(source.read_bytes()), np.random.default_rng(1)
    for packet in found[every - 1 :: every]:
        size = int(packet.size * part)
        end = packet.pos + packet.size
        data[end - size : end] = rng.bytes(size)
    path.write_bytes(data)
    return path


def encrypted_matroska(path: Path, source: Path) -> Path:
    """The header says that the packets are encrypted, and they are noise."""
    named = copy_packets(path.with_suffix(".named.mkv"), source, title="x" * 39)
    content = noisy(path, named, 1, 0.9).read_bytes()
    path.write_bytes(content.replace(_NAME, _CONTENT_ENCODINGS))
    return path


def motion_jpeg_2000(path: Path) -> Path:
    """A QuickTime file with JPEG 2000 pictures, under the signature of an .mj2 file; both begin with 28 bytes before `mdat`."""
    content = write(path.with_suffix(".mov"), 20, codec="jpeg2000", options={}).read_bytes()
    kind = struct.pack(">I4s4sI", 16, b"ftyp", b"mjp2", 0)
    path.write_bytes(b"\0\0\0\x0cjP  \r\n\x87\n" + kind + content[28:])
    return path


def avif_sequence(path: Path) -> Path:
    """A sequence of pictures that calls itself, as many do, a still picture first and a sequence second."""
    content = write(path, 20, **AV1).read_bytes()
    path.write_bytes(content.replace(b"ftypavis", b"ftypavif", 1))
    return path


def _damaged(folder: Path, name: str, how: dict[str, Any], every: int, part: float) -> Path:
    source = write(folder / f"whole {name}.mp4", 120, size=(160, 120), **how)
    return noisy(folder / f"damaged {name}.mp4", source, every, part)


HOSTILE: dict[str, Callable[[Path], Path]] = {
    **{
        f"Latin-1 title, {end}": lambda to, end=end: latin_1(to, end)
        for end in ("mp4", "mov", "mkv", "webm", "flv")
    },
    **{
        f"swapped key frames, {end}": lambda to, end=end: swapped(
            to / f"swapped.{end}",
            write(to / f"ordered.{end}", 720, gop=60, **x264("scenecut=0")),
            60,
        )
        for end in ("mp4", "mkv")
    },
    **{
        f"frame {frame} at {place}, {end}": lambda to, end=end, frame=frame, place=place: stamped(
            to / f"{frame} at {place}.{end}",
            write(to / f"even.{end}", 100, gop=10, **EVEN[end]),
            frame,
            place,
        )
        for end in EVEN
        for frame, place in ((55, 54), (55, 15.3), (55, 80.3), (55, 1e6), (99, 1e5), (60, 15.3))
    },
    "lost slices": lambda to: _damaged(to, "slices", x264("slices=4"), 4, 0.2),
    "lost halves": lambda to: _damaged(to, "halves", x264("bframes=3:keyint=30"), 3, 0.5),
    "lost ends": lambda to: _damaged(to, "ends", {}, 5, 0.9),
    "encrypted MP4": lambda to: copy_packets(
        to / "encrypted.mp4", write(to / "clear.mp4"), options=ENCRYPTED
    ),
    "encrypted Matroska": lambda to: encrypted_matroska(
        to / "encrypted.mkv", write(to / "clear.mkv")
    ),
    "Motion JPEG 2000": lambda to: motion_jpeg_2000(to / "moving.mj2"),
    "animated PNG": lambda to: write(
        to / "moving.png", 20, codec="apng", pix_fmt="rgba", options={}, format="apng"
    ),
    "animated WebP": lambda to: write(
        to / "moving.webp", 20, codec="libwebp_anim", pix_fmt="bgra", options={}
    ),
}
if "libsvtav1" in av.codecs_available:
    HOSTILE["AVIF sequence"] = lambda to: avif_sequence(to / "moving.avif")
