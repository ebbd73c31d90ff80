"""A picture file as a frame, for published rows that name pictures instead of frames of a video."""

import hashlib
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.types import Frame, FrameRef, Side


def read_picture(path: Path, place: int) -> Frame:
    """The picture as frame `place` of its message, at its own size. Raises BadInput for a file that is no picture."""
    from PIL import Image, UnidentifiedImageError

    try:
        data = path.read_bytes()
        with Image.open(path) as picture:
            pixels = picture.convert("RGB")
    except (OSError, UnidentifiedImageError, ValueError, Image.DecompressionBombError):
        raise BadInput(f"{path.name} is no picture that can be read.") from None
    key = hashlib.sha256(data).hexdigest()
    return Frame(FrameRef(place, Side.FIRST), place, 0.0, 0.0, *pixels.size, key, pixels.tobytes())
