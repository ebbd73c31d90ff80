"""Thumbnails: frames as a trace keeps them, each so small that a trace from a stranger may hold it."""

import io

from vrthinker_core.types import Frame, Thumbnail

THUMBNAIL_HEIGHT = 224
MAX_SIDE = 8 * THUMBNAIL_HEIGHT  # in pixels
MAX_JPEG_BYTES = 256 * 2**10
QUALITIES = (
    82,
    60,
    30,
)  # Grey noise at the greatest size has 305 KiB at the first, 172 KiB at the last


def make_thumbnail(frame: Frame, number: str) -> Thumbnail:
    """The frame as a trace keeps it: JPEG, at most 224 pixels high and 1792 wide, and small enough to be read back."""
    from PIL import Image

    picture = Image.frombytes("RGB", (frame.width, frame.height), frame.rgb)
    scale = min(THUMBNAIL_HEIGHT / picture.height, MAX_SIDE / picture.width)
    if scale < 1:
        size = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
        # Whole pixels are averaged first, which takes a tenth of the time: a judge's 448 x 448 pixels need no more than that.
        picture = picture.resize(size, Image.Resampling.BICUBIC, reducing_gap=1.0)
    for quality in QUALITIES:
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=quality)
        if buffer.tell() <= MAX_JPEG_BYTES:
            break
    return Thumbnail(
        frame.ref, number, frame.index, frame.seconds, frame.until, buffer.getvalue(), frame.note
    )


def is_thumbnail(frame: Thumbnail) -> bool:
    """Its picture is a JPEG within the bounds, as far as its header says."""
    return len(frame.jpeg) <= MAX_JPEG_BYTES and 0 < max(jpeg_size(frame.jpeg)) <= MAX_SIDE


def jpeg_size(data: bytes) -> tuple[int, int]:
    """(width, height) in pixels, from the header alone; (0, 0) for what is no JPEG."""
    from PIL.JpegImagePlugin import JpegImageFile

    try:
        # Not Image.open, which raises and warns about large pictures, and may take one for a set of several.
        with JpegImageFile(io.BytesIO(data)) as picture:
            return picture.size
    except (OSError, ValueError, SyntaxError):
        return 0, 0
