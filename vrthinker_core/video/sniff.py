"""Why a file is refused from its first bytes, before any decoder reads it.

Playlists are the reason: `.m3u8`, ffconcat, SDP and the like make a demuxer open other files or addresses, whatever the file is
called. Images, audio and text are named too, because "invalid data" helps nobody.
"""

import re

HEAD_BYTES = 4096

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
_MP3 = re.compile(rb"\xff[\xfa\xfb\xf2\xf3\xe2\xe3]")
_AUDIO_MAGIC = (b"ID3", b"fLaC", b"#!AMR", b".snd", b"caff", b"MThd")
_STILL_BRANDS = (b"avif", b"heic", b"heix", b"heim", b"heis", b"mif1", b"mif2")
_PLAYLIST = re.compile(
    rb"#EXT|ffconcat|v=0\s|\[playlist\]|\[reference\]|\[internetshortcut\]|RTSPtext|<\?xml|<mpd|<smil|<asx|<playlist", re.IGNORECASE
)


def why_not_a_video(head: bytes) -> str | None:
    """Why a file with these first HEAD_BYTES bytes is no video ("is an image …"); None where they do not tell."""
    if image := _image_format(head):
        return f"is an image ({image}), not a video"
    if head.startswith(_AUDIO_MAGIC) or head[8:12] in (b"WAVE", b"AIFF", b"AIFC") or _MP3.match(head):
        return "holds sound only, no video"
    if _PLAYLIST.match(head.removeprefix(b"\xef\xbb\xbf").lstrip()):
        return "is a playlist that points at other files, not a video"
    if _is_text(head):
        return "is a text file, not a video"
    return None


def _image_format(head: bytes) -> str | None:
    for name, magic in _IMAGE_MAGIC.items():
        if head.startswith(magic):
            return name
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "WebP"
    if head[4:8] == b"ftyp" and head[8:12] in _STILL_BRANDS:
        return "AVIF" if head[8:12] == b"avif" else "HEIF"
    return None


def _is_text(head: bytes) -> bool:
    if head.startswith(b"YUV4MPEG2 "):
        return False
    control = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in head)
    return control == 0 and sum(byte >= 127 for byte in head) * 4 < len(head)
