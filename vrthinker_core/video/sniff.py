"""Refusal of files by their first bytes, before any decoder reads them.

Playlists are the attack: `.m3u8`, ffconcat, SDP and the like make a demuxer open other files or
addresses, whatever the file name. Images, audio and text get messages of their own, because
"invalid data" helps nobody.
"""

import re

HEAD_BYTES = 1 << 16
_TEXT_BYTES = 4096

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
_SEQUENCE_BRANDS = (b"avis", b"msf1", b"hevc", b"hevx", b"hevm", b"hevs")
IMAGE_BRANDS = (b"avif", b"heic", b"heix", b"heim", b"heis", b"mif1", b"mif2", *_SEQUENCE_BRANDS)
"""Major brands of AVIF and HEIF files: still pictures or sequences."""
_WEBP_ANIMATION = 2  # flag in the header of an extended WebP
_PLAYLIST = re.compile(
    rb"#EXT|ffconcat|v=0\s|\[playlist\]|\[reference\]|\[internetshortcut\]|RTSPtext|<\?xml|<mpd|<smil|<asx|<playlist",
    re.IGNORECASE,
)


def why_not_a_video(head: bytes) -> str | None:
    """Return why a file is no video, or None.

    Example: "is an image (PNG), not a video".

    `head` holds the first `HEAD_BYTES` bytes of the file. None means that they do not tell.
    """
    if _is_animated(head):
        return None
    if (
        head.startswith(b"RIFF")
        and head[8:16] == b"WEBPVP8X"
        and any(flags & _WEBP_ANIMATION for flags in head[20:21])
    ):
        return "is an animated WebP, which cannot be decoded here: convert it to MP4 first"
    if image := _image_format(head):
        return f"is an image ({image}), not a video"
    if (
        head.startswith(_AUDIO_MAGIC)
        or head[8:12] in (b"WAVE", b"AIFF", b"AIFC")
        or _MP3.match(head)
    ):
        return "holds sound only, no video"
    if _PLAYLIST.match(head.removeprefix(b"\xef\xbb\xbf").lstrip()):
        return "is a playlist that points at other files, not a video"
    if _is_text(head[:_TEXT_BYTES]):
        return "is a text file, not a video"
    return None


def _is_animated(head: bytes) -> bool:
    """Recognise Motion JPEG 2000, animated PNG, and AVIF or HEIF sequences."""
    if head.startswith(_IMAGE_MAGIC["JPEG 2000"]):
        return head[16:24] == b"ftypmjp2"
    if head.startswith(_IMAGE_MAGIC["PNG"]):
        return b"acTL" in head.partition(b"IDAT")[0]
    size, kind = int.from_bytes(head[:4], "big"), head[4:8]
    brands = {
        head[8:12],
        *(head[start : start + 4] for start in range(16, min(size, len(head)), 4)),
    }
    return (
        kind == b"ftyp" and head[8:12] in IMAGE_BRANDS and not brands.isdisjoint(_SEQUENCE_BRANDS)
    )


def _image_format(head: bytes) -> str | None:
    for name, magic in _IMAGE_MAGIC.items():
        if head.startswith(magic):
            return name
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "WebP"
    if head[4:8] == b"ftyp" and head[8:12] in IMAGE_BRANDS:
        return "AVIF" if head[8:12] == b"avif" else "HEIF"
    return None


def _is_text(head: bytes) -> bool:
    if head.startswith(b"YUV4MPEG2 "):
        return False
    control = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in head)
    return control == 0 and sum(byte >= 127 for byte in head) * 4 < len(head)
