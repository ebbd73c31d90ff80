"""Checks of a path before a decoder sees it, and file digests.

Imports no decoder, so the parent process can check before it starts a worker.
"""

import errno
import hashlib
import os
import re
import stat
from io import BufferedReader
from pathlib import Path

from vrthinker_core.errors import VideoError, VideoUnavailable, out_of_files
from vrthinker_core.words import encodable

HEAD_BYTES = 1 << 16

_IMAGE_MAGIC = {
    "PNG": (b"\x89PNG\r\n\x1a\n",),
    "JPEG": (b"\xff\xd8\xff",),
    "BMP": (b"BM",),
    "TIFF": (b"II*\x00", b"MM\x00*"),
    "PSD": (b"8BPS",),
    "icon": (b"\x00\x00\x01\x00\x01\x00",),
    "JPEG XL": (b"\xff\x0a", b"\x00\x00\x00\x0cJXL \r\n\x87\n"),
    "JPEG 2000": (b"\x00\x00\x00\x0cjP  \r\n\x87\n",),
}
_SEQUENCE_BRANDS = (b"avis", b"msf1", b"hevc", b"hevx", b"hevm", b"hevs")
IMAGE_BRANDS = (b"avif", b"heic", b"heix", b"heim", b"heis", b"mif1", b"mif2", *_SEQUENCE_BRANDS)
"""Major brands of AVIF and HEIF files: still pictures or sequences."""
_PLAYLIST = re.compile(
    rb"#EXT|ffconcat|v=0\s|\[playlist\]|\[reference\]|\[internetshortcut\]|RTSPtext"
    rb"|<\?xml|<mpd|<smil|<asx|<playlist",
    re.IGNORECASE,
)


def why_not_a_video(head: bytes) -> str | None:
    """Return why a file is no video, or None.

    Example: "is an image (PNG), not a video". `head` holds the first `HEAD_BYTES` bytes of the
    file. None means that they do not tell.
    """
    if _is_animated(head):
        return None
    if head.startswith(b"RIFF") and head[8:16] == b"WEBPVP8X" and head[20:21] and head[20] & 2:
        return "is an animated WebP, which cannot be decoded here: convert it to MP4 first"
    if image := _image_format(head):
        return f"is an image ({image}), not a video"
    audio = (b"ID3", b"fLaC", b"#!AMR", b".snd", b"caff", b"MThd")
    waves, mp3 = (b"WAVE", b"AIFF", b"AIFC"), rb"\xff[\xfa\xfb\xf2\xf3\xe2\xe3]"
    if head.startswith(audio) or head[8:12] in waves or re.match(mp3, head):
        return "holds sound only, no video"
    if _PLAYLIST.match(head.removeprefix(b"\xef\xbb\xbf").lstrip()):
        return "is a playlist that points at other files, not a video"
    text = head[:4096]
    control = any(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in text)
    ascii_like = sum(byte >= 127 for byte in text) * 4 < len(text)
    if ascii_like and not control and not text.startswith(b"YUV4MPEG2 "):
        return "is a text file, not a video"
    return None


def _is_animated(head: bytes) -> bool:
    """Recognise Motion JPEG 2000, animated PNG, and AVIF or HEIF sequences."""
    if head.startswith(_IMAGE_MAGIC["JPEG 2000"]):
        return head[16:24] == b"ftypmjp2"
    if head.startswith(_IMAGE_MAGIC["PNG"]):
        return b"acTL" in head.partition(b"IDAT")[0]
    major, size = head[8:12], min(int.from_bytes(head[:4], "big"), len(head))
    brands = {major, *(head[start : start + 4] for start in range(16, size, 4))}
    is_image = head[4:8] == b"ftyp" and major in IMAGE_BRANDS
    return is_image and not brands.isdisjoint(_SEQUENCE_BRANDS)


def _image_format(head: bytes) -> str | None:
    for name, magic in _IMAGE_MAGIC.items():
        if head.startswith(magic):
            return name
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "WebP"
    if head[4:8] == b"ftyp" and head[8:12] in IMAGE_BRANDS:
        return "AVIF" if head[8:12] == b"avif" else "HEIF"
    return None


# FFmpeg and its wrappers read these prefixes as addresses. Drive letters (C:) do not match.
_ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.-]+:/|(?:async|cache|concat|concatf|crypto|data|fd|file|gopher|"
    r"gophers|hls|ipfs|ipns|md5|mmsh|mmst|pipe|"
    r"rtmp[a-z]*|rtp|rtsp|sftp|smb|srt|srtp|subfile|tcp|tee|tls|udp|unix):)",
    re.IGNORECASE,
)


def shown_name(path: Path) -> str:
    """Return the file name without folders, unprintable characters replaced."""
    return _shown(path.name)


def _shown(name: str) -> str:
    characters = encodable(name)
    return "".join(
        each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in characters
    )


def open_local(path: Path) -> BufferedReader:
    """Open a file for reading after all checks that need no decoder.

    Raises `VideoError` for an address, a missing file, a folder, a special file, no permission, an
    empty file, and an image, playlist, text or audio by the first bytes. Raises
    `VideoUnavailable` if the same file may open later.
    """
    if not path.name:
        raise VideoError(f"No video file was given: {path} is a folder.")
    name = shown_name(path)
    if _ADDRESS.match(os.fspath(path)):
        # `Path` has collapsed the two slashes of the address.
        address = re.sub(r"^([a-z][a-z0-9+.-]+:)/(?!/)", r"\1//", str(path), flags=re.IGNORECASE)
        raise VideoError(
            f"{address} is an address, not a file: download the video first and give its path on "
            "this machine."
        )
    try:
        file = _open_regular(path.resolve(strict=True), name)
    except FileNotFoundError:
        # Visitors must not see a server's folders; only people and programs name relative paths.
        place = name if path.is_absolute() else _shown(str(path))
        raise VideoError(f"{place} does not exist.") from None
    except PermissionError:
        raise VideoError(f"{name} cannot be read: permission denied.") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise _refusal(error, f"{name} cannot be opened") from None
    try:
        head = file.read(HEAD_BYTES)
        if not head:
            raise VideoError(f"{name} is empty.")
        if reason := why_not_a_video(head):
            raise VideoError(f"{name} {reason}.")
    except OSError as error:
        file.close()
        raise _refusal(error, f"{name} cannot be read") from None
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


def _open_regular(path: Path, name: str) -> BufferedReader:
    if path.is_dir():
        raise VideoError(f"{name} is a folder, not a video.")
    # Non-blocking, because opening a named pipe would wait for a writer forever.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise VideoError(f"{name} is no regular file.")
    return os.fdopen(descriptor, "rb")


def file_digest(path: Path) -> str:
    """Return a file's SHA-256 as traces store it, "" if unreadable."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return ""


def _refusal(error: Exception, sentence: str) -> VideoError:
    """Return the error for an unusable file; its message starts with `sentence`."""
    cause = getattr(error, "strerror", None) or "not a usable path"
    # Failures of the machine, its disk or network, which say nothing about the file
    passing = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE)
    if isinstance(error, OSError) and error.errno in passing:
        later = f"{sentence} now: {cause}. Compare again later."
        return VideoUnavailable(out_of_files(error) or later)
    return VideoError(f"{sentence}: {cause}.")
