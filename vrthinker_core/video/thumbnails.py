"""Thumbnails: the frames that a trace keeps, small enough for a stranger's trace."""

import io
import math

from vrthinker_core.types import ClipInfo, Frame, Thumbnail

THUMBNAIL_HEIGHT = 224
MAX_SIDE = 8 * THUMBNAIL_HEIGHT  # in pixels
MAX_JPEG_BYTES = 256 * 2**10


def make_thumbnail(frame: Frame, number: str) -> Thumbnail:
    """Return a frame as the JPEG thumbnail of a trace.

    At most 224 pixels high and 1792 wide, and small enough to be read back.
    """
    from PIL import Image

    picture = Image.frombytes("RGB", (frame.width, frame.height), frame.rgb)
    scale = min(THUMBNAIL_HEIGHT / picture.height, MAX_SIDE / picture.width)
    if scale < 1:
        size = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
        # `reducing_gap` averages whole pixels first: a tenth of the time, enough for 448 x 448.
        picture = picture.resize(size, Image.Resampling.BICUBIC, reducing_gap=1.0)
    # Grey noise at the largest size takes 305 KiB at the first quality, 172 KiB at the last.
    for quality in (82, 60, 30):
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=quality)
        if buffer.tell() <= MAX_JPEG_BYTES:
            break
    times, jpeg = (frame.seconds, frame.until), buffer.getvalue()
    return Thumbnail(frame.ref, number, frame.index, *times, jpeg, frame.note)


def is_thumbnail(frame: Thumbnail) -> bool:
    """Return whether the JPEG is within the limits, by its header."""
    return len(frame.jpeg) <= MAX_JPEG_BYTES and 0 < max(jpeg_size(frame.jpeg)) <= MAX_SIDE


def jpeg_size(data: bytes) -> tuple[int, int]:
    """Return (width, height) in pixels from a JPEG header, else (0, 0)."""
    from PIL.JpegImagePlugin import JpegImageFile

    try:
        # `Image.open` raises and warns about large pictures, and may find several in one file.
        with JpegImageFile(io.BytesIO(data)) as picture:
            return picture.size
    except (OSError, ValueError, SyntaxError):
        return 0, 0


def seek_time(frame: Thumbnail) -> float:
    """Return seconds to the middle of its interval: browsers show the exact frame there."""
    return finite((frame.seconds + max(frame.seconds, frame.until)) / 2)


def timeline_position(frame: Thumbnail, clip: ClipInfo | None) -> float:
    """Return the frame's place in its clip, 0 to 1: equal places are one moment."""
    index = min(max(frame.index, 0), 2**31)
    frames = max(clip.frames if clip else 0, index + 1)
    return round((index + 0.5) / frames, 5)


def finite(seconds: float) -> float:
    """Return rounded seconds; 0 for what is no finite number."""
    return round(seconds, 5) if math.isfinite(seconds) else 0.0
