"""Files that are refused: with one sentence that names the file, and without opening anything else."""

from __future__ import annotations

import errno
import os
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.support.loopback_server import LoopbackServer, QuietHandler, serving
from tests.video.support.hostile_clips import ENCRYPTED, HOSTILE, copy_packets
from tests.video.support.open_clips import opened
from tests.video.support.write_clips import AV1, sound_only, write
from vrthinker_core.errors import DecoderDied, VideoError, VideoUnavailable

MakeClip = Callable[[str], Path]
SDP = b"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\n"
UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"


def reason(path: Path | str) -> str:
    with pytest.raises(VideoError) as caught:
        opened(Path(path)).close()
    assert not isinstance(caught.value, DecoderDied)
    text = str(caught.value)
    assert text.endswith(".")
    assert "Traceback" not in text
    return text


def test_paths_that_are_no_regular_file(tmp_path: Path) -> None:
    folder = tmp_path / "clips.mp4"
    folder.mkdir()
    (tmp_path / "empty.mp4").touch()
    os.mkfifo(tmp_path / "pipe.mp4")
    (tmp_path / "loop.mp4").symlink_to(tmp_path / "loop.mp4")
    assert reason(tmp_path / "missing.mp4") == "missing.mp4 does not exist."
    assert reason(folder) == "clips.mp4 is a folder, not a video."
    assert reason(tmp_path / "empty.mp4") == "empty.mp4 is empty."
    assert reason(tmp_path / "pipe.mp4") == "pipe.mp4 is no regular file."
    assert reason("/dev/zero") == "zero is no regular file."
    assert reason(tmp_path / "loop.mp4").startswith("loop.mp4 cannot be opened")
    assert reason(tmp_path / "a\0b.mp4").startswith(f"a{UNPRINTABLE}b.mp4 cannot be opened")
    assert reason(tmp_path / ("x" * 300)).endswith("name too long.")
    assert reason("") == "No video file was given: . is a folder."
    odd = reason(tmp_path / "<b>\n\x1b[31m.mp4")
    assert odd == f"<b>{UNPRINTABLE}{UNPRINTABLE}[31m.mp4 does not exist."
    assert reason("vidoes/one.mp4") == "vidoes/one.mp4 does not exist.", "relative, as it was given"


CODES = {
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "Too many files are open: "),
    **dict.fromkeys((errno.ENOMEM, errno.EIO, errno.ESTALE), "plain.mp4 cannot be opened now: "),
    errno.EACCES: "plain.mp4 cannot be read: permission denied.",
}


@pytest.mark.parametrize("code", CODES)
def test_what_says_nothing_about_the_file_may_pass(
    code: int, make_clip: MakeClip, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    path = make_clip("B-frames")
    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(VideoError, match=f"^{CODES[code]}") as refused:
        opened(path)
    assert isinstance(refused.value, VideoUnavailable) is (code != errno.EACCES)


def test_images_are_refused_in_video_containers_too(make_clip: MakeClip, tmp_path: Path) -> None:
    still = tmp_path / "still.mp4"
    jpeg_2000 = b"\0\0\0\x0cjP  \r\n\x87\n" + struct.pack(">I4s4sI", 16, b"ftyp", b"jp2 ", 0)
    animated = make_clip("animated PNG").read_bytes()
    start = animated.index(b"acTL") - 4
    images = [
        ("AVIF", struct.pack(">I", 24) + b"ftypavif\0\0\0\0mif1miaf" + bytes(64)),
        ("JPEG 2000", jpeg_2000 + bytes(64)),
        ("PNG", animated[:start] + animated[start + 20 :]),
        ("WebP", make_clip("animated WebP").read_bytes()[:18]),
    ]
    for suffix in ("png", "jpg", "webp", "bmp", "tiff"):
        encoded = cv2.imencode(f".{suffix}", np.zeros((16, 16, 3), np.uint8))[1]
        images.append(("", encoded.tobytes()))
    for kind, content in images:
        still.write_bytes(content)
        told = rf"still\.mp4 is an image \({kind or '.+'}\), not a video\."
        assert re.fullmatch(told, reason(still))
    assert reason(make_clip("animated WebP")).startswith("moving.webp is an animated WebP, which ")


@pytest.mark.skipif("AVIF sequence" not in HOSTILE, reason="AV1 cannot be written here")
def test_a_still_avif_is_refused_whatever_it_calls_itself(tmp_path: Path) -> None:
    still = write(tmp_path / "still.avif", 1, **AV1)
    assert reason(still) == "still.avif is an image (AVIF), not a video."
    still.write_bytes(still.read_bytes().replace(b"ftypavif", b"ftypavis"))
    assert reason(still) == "still.avif holds a still picture, no video."


def test_an_encrypted_clip_of_which_nothing_is_read_is_called_encrypted(tmp_path: Path) -> None:
    clear = write(tmp_path / "clear.mp4", 3)
    how = {**ENCRYPTED, "movflags": "frag_keyframe+empty_moov"}
    content = copy_packets(tmp_path / "whole.mp4", clear, options=how).read_bytes()
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(content[: content.index(b"senc") + 20])
    assert reason(cut).startswith("cut.mp4 is encrypted")


def test_audio_files_are_refused(tmp_path: Path) -> None:
    assert reason(sound_only(tmp_path / "song.mp4")) == "song.mp4 holds sound only, no video."
    (tmp_path / "song.mp3").write_bytes(b"ID3\x04" + bytes(100))
    assert reason(tmp_path / "song.mp3") == "song.mp3 holds sound only, no video."


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """An HTTP address, and the paths requested from it."""
    requested: list[str] = []

    class Log(QuietHandler):
        def do_GET(self) -> None:
            requested.append(self.path)
            self.send_error(404)

    with serving(LoopbackServer(Log)) as listening:
        yield f"{listening.address}/clip.mp4", requested


def playlists(target: str) -> dict[str, bytes]:
    """Files that make a demuxer open `target`."""
    media = f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{target}\n#EXT-X-ENDLIST\n".encode()
    return {
        **dict.fromkeys(("list.m3u8", "list.mp4", "list.ts"), media),
        "marked.mp4": b"\xef\xbb\xbf" + media,
        "spaced.mp4": b"\r\n \t" + media,
        "master.mp4": f"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{target}\n".encode(),
        "key.mp4": f'#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,URI="{target}"\n#EXTINF:1,\nx.ts\n'.encode(),
        "concat.mp4": f"ffconcat version 1.0\nfile '{target}'\n".encode(),
        "plain.mp4": f"file '{target}'\n".encode(),
        "session.mp4": SDP,
        "dash.mp4": f'<?xml version="1.0"?><MPD><Period><BaseURL>{target}</BaseURL></Period></MPD>'.encode(),
        "bare.mp4": f"<MPD><Period><BaseURL>{target}</BaseURL></Period></MPD>".encode(),
        "play.asx": f'<ASX version="3.0"><ENTRY><REF HREF="{target}"/></ENTRY></ASX>'.encode(),
        "reference.asf": f"[Reference]\nRef1={target}\n".encode(),
        "play.pls": f"[playlist]\nFile1={target}\n".encode(),
        "quick.mov": f"RTSPtext\n{target}\n".encode(),
        "real.ram": f"{target}\n".encode(),
        "smooth.mp4": f'<smil><body><video src="{target}"/></body></smil>'.encode(),
    }


def test_playlists_are_refused_and_open_nothing(
    tmp_path: Path, server: tuple[str, list[str]], make_clip: MakeClip
) -> None:
    address, requested = server
    path = make_clip("B-frames")
    for target in (address, f"file:{path}", str(path)):
        for name, content in playlists(target).items():
            (tmp_path / name).write_bytes(content)
            text = reason(tmp_path / name)
            assert "playlist" in text or "is a text file" in text
    assert not requested


def test_addresses_are_refused_and_open_nothing(
    server: tuple[str, list[str]], make_clip: MakeClip, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, requested = server
    path = make_clip("B-frames")
    monkeypatch.chdir(path.parent)
    assert reason(address).startswith(f"{address} is an address, not a file: ")
    for opener in ("concat", "subfile,,start,0,end,0,,", "file", "crypto", "cache"):
        text = reason(f"{opener}:{path}")
        assert "is an address, not a file" in text or "does not exist" in text
    assert not requested


def test_local_files_with_unusual_names_are_opened(make_clip: MakeClip, tmp_path: Path) -> None:
    for name in ("-i.mp4", "%03d.mp4", "12:30 take.mp4", "a b|c.mp4", "Ünïcode ✓.mp4"):
        (tmp_path / name).write_bytes(make_clip("three frames").read_bytes())
        with opened(tmp_path / name) as clip:
            assert clip.info.name == name


def gif(width: int, height: int) -> bytes:
    head = b"GIF89a" + struct.pack("<HH", width, height) + b"\x80\0\0" + bytes(6)
    picture = b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, 0)
    return head + picture + b"\x02\x02\x4c\x01\x00\x3b"


@pytest.mark.parametrize("size", [(65535, 65535), (9000, 10), (7000, 7000), (0, 10)], ids=str)
def test_declared_sizes_above_the_limits_are_refused(size: tuple[int, int], tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.gif"
    bomb.write_bytes(gif(*size))
    assert reason(bomb).startswith("bomb.gif ")
    assert size != (9000, 10) or "9000 x 10 pixels" in reason(bomb)


def test_a_stream_that_is_too_wide_is_refused(tmp_path: Path) -> None:
    wide = write(tmp_path / "wide.mp4", 1, size=(8208, 16), options={"preset": "ultrafast"})
    assert reason(wide).startswith("wide.mp4 is too large: 8208 x 16 pixels")


def test_damaged_and_random_files_are_refused(tmp_path: Path, make_clip: MakeClip) -> None:
    rng = np.random.default_rng(1)
    plain = make_clip("B-frames").read_bytes()
    for name, content in {
        "noise.mp4": rng.bytes(50_000),
        "zeros.mp4": bytes(50_000),
        "head.mp4": plain[:40],
        "no index.mp4": plain[: plain.index(b"moov") - 4],
        "text.mp4": "Zwölf Boxkämpfer jagen Viktor.\n".encode() * 200,
        "page.mp4": b"<!doctype html><html><body>404</body></html>",
        "one byte.mp4": b"\0",
    }.items():
        (tmp_path / name).write_bytes(content)
        assert reason(tmp_path / name).startswith(name)


def test_a_clip_without_a_decodable_frame_is_refused(tmp_path: Path, make_clip: MakeClip) -> None:
    data = make_clip("B-frames").read_bytes()
    start, end = data.index(b"mdat") + 4, data.index(b"moov") - 4
    noise = b"\xff" * (end - start)
    (tmp_path / "hopeless.mp4").write_bytes(data[:start] + noise + data[end:])
    told = "hopeless.mp4 is damaged: not one frame can be decoded, of 50 stored."
    assert reason(tmp_path / "hopeless.mp4") == told
