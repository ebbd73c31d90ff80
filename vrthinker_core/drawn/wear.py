"""What becomes of a picture on its way from a file to a judge's eyes: the file's size, its codec, the product's own resizing.

Wear is no fault: both videos of a pair have the same. JPEG stands in for the video codec, which takes ten times as long; now and
then it is H.264 itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import av
import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vrthinker_core.drawn.textures import Pixels

REFERENCE_SIDE = 112
"""Pixels per side at which the built-in judge sees a picture: damage is as coarse there as in a clip of any size."""
FAINTEST = -0.5  # The lowest strength of damage; plain faults run from 0 to 1


def _blurry(picture: Pixels, strength: float, _: np.random.Generator) -> Pixels:
    return _pixels(
        cv2.GaussianBlur(
            picture, (0, 0), (1.6 + 1.6 * strength) * picture.shape[1] / REFERENCE_SIDE
        )
    )


def add_noise(
    picture: Pixels, strength: float, rng: np.random.Generator, grain: int = REFERENCE_SIDE
) -> Pixels:
    """Noise with `grain` grains a side. What is finer than REFERENCE_SIDE fades when the picture is shrunk for the judge."""
    grains = rng.standard_normal((grain, grain, 3), np.float32) * np.float32(22 + 22 * strength)
    height, width = picture.shape[:2]
    fitting = cv2.INTER_NEAREST if grain <= min(height, width) else cv2.INTER_AREA
    return _pixels(picture + cv2.resize(grains, (width, height), interpolation=fitting))


def _blocky(picture: Pixels, strength: float, _: np.random.Generator) -> Pixels:
    blocks = 26 if strength < 0 else 18 if strength < 0.5 else 14
    height, width = picture.shape[:2]
    small = cv2.resize(picture, (blocks, blocks), interpolation=cv2.INTER_AREA)
    return _pixels(cv2.resize(small, (width, height), interpolation=cv2.INTER_NEAREST))


def _dark(picture: Pixels, strength: float, _: np.random.Generator) -> Pixels:
    return _pixels(picture * np.float32(0.38 - 0.12 * strength))


def _bright(picture: Pixels, strength: float, _: np.random.Generator) -> Pixels:
    return _pixels(picture * np.float32(1.25 + 0.15 * strength) + 45 + 30 * min(strength, 0))


def _banded(picture: Pixels, strength: float, _: np.random.Generator) -> Pixels:
    levels = 5 if strength < 0 else 4 if strength < 0.5 else 3
    return _pixels(np.floor(picture * np.float32(levels / 256)) * np.float32(255 / (levels - 1)))


def _pixels(values: NDArray[Any]) -> Pixels:
    clipped: Pixels = np.clip(values, 0, 255).astype(np.uint8)
    return clipped


Damage = Callable[[Pixels, float, np.random.Generator], Pixels]
DAMAGES: dict[str, Damage] = {
    "blurry": _blurry,
    "noisy": add_noise,
    "blocky": _blocky,
    "dark": _dark,
    "bright": _bright,
    "banded": _banded,
}


SIZES = (
    (112, 160),
    (160, 240),
    (240, 360),
    (480, 720),
)  # Pixels of a file's shorter side, from and below
SIZE_SHARES = (0.5, 0.34, 0.12, 0.04)
WORST_QUALITY = (
    62,
    48,
    34,
    28,
)  # JPEG's quality at these sizes at worst: damage must stay smaller than the faintest fault
BEST_QUALITY = 95
BEST_CRF, WORST_CRF = 18, 32  # Of H.264
STRETCHES = (1.0, 1.0, 4 / 3, 16 / 9, 9 / 16)  # Width by height of files
_UNEVEN = (
    0,
    -2,
    3,
    -4,
    2,
    -1,
    4,
    -3,
    1,
)  # By which quality differs from frame to frame: two that show the same are coded apart


@dataclass(frozen=True, slots=True)
class Wear:
    """One file's size and codec."""

    width: int
    height: int
    quality: int  # JPEG's, or H.264's constant rate factor
    h264: bool = False
    drawn: int = (
        112  # Pixels per side at which the scene is drawn; what is drawn larger has smoother edges
    )

    def apply(self, draw: Callable[[int], Pixels], index: int, size: int) -> Pixels:
        """Frame `index` as a judge gets it, RGB [size, size, 3]; `draw` gives the frames of the file."""
        if self.h264:
            burst = [
                scale_picture(draw(number), self.width, self.height)
                for number in range(max(0, index - 1), index + 1)
            ]
            coded = code_h264(burst, self.quality)[-1]
        else:
            coded = code_jpeg(
                scale_picture(draw(index), self.width, self.height),
                self.quality + _UNEVEN[index % len(_UNEVEN)],
            )
        return as_the_judge_sees(coded, size)


def draw_wear(rng: np.random.Generator, h264: float) -> Wear:
    """A random size and codec; `h264` is the share of the real one."""
    kind = int(rng.choice(len(SIZES), p=SIZE_SHARES))
    shorter, stretch = int(rng.integers(*SIZES[kind])), float(rng.choice(STRETCHES))
    width, height = (
        2 * round(shorter * max(1.0, ratio) / 2) for ratio in (stretch, 1 / stretch)
    )  # Even, as codecs need them
    drawn = 168 if rng.random() < 0.15 else 112
    if rng.random() < h264 and kind < 2:
        return Wear(
            width, height, int(rng.integers(BEST_CRF, WORST_CRF + 1)), h264=True, drawn=drawn
        )
    return Wear(
        width, height, int(rng.integers(WORST_QUALITY[kind], BEST_QUALITY + 1)), drawn=drawn
    )


def code_jpeg(picture: Pixels, quality: int) -> Pixels:
    """The picture, RGB [h, w, 3], after JPEG of a quality of 1 to 100."""
    _, data = cv2.imencode(
        ".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality]
    )
    decoded = cv2.imdecode(data, cv2.IMREAD_COLOR)
    assert decoded is not None
    return np.asarray(cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB), np.uint8)


def code_h264(pictures: list[Pixels], crf: int) -> list[Pixels]:
    """A burst of pictures, RGB [h, w, 3] with even sides, after H.264 of a constant rate factor."""
    height, width = pictures[0].shape[:2]
    encoder = av.CodecContext.create("libx264", "w")
    encoder.width, encoder.height, encoder.pix_fmt = width, height, "yuv420p"
    encoder.time_base, encoder.thread_count = Fraction(1, 24), 1
    encoder.options = {"crf": str(crf), "preset": "veryfast", "tune": "zerolatency"}
    decoder = av.CodecContext.create("h264", "r")
    decoder.thread_count = 1
    packets = [
        packet
        for picture in pictures
        for packet in encoder.encode(av.VideoFrame.from_ndarray(picture, format="rgb24"))
    ]
    packets += encoder.encode(None)
    frames = [frame for packet in (*packets, None) for frame in decoder.decode(packet)]
    return [np.asarray(frame.to_ndarray(format="rgb24"), np.uint8) for frame in frames]


def as_the_judge_sees(picture: Pixels, size: int) -> Pixels:
    """A file's picture as a judge of `size` pixels a side sees it.

    The product resizes to 448 x 448 first; straight from the file's size it is nearly the same, and far faster.
    """
    if picture.shape[:2] == (size, size):
        return picture
    return np.asarray(
        Image.fromarray(picture).resize((size, size), Image.Resampling.BICUBIC, reducing_gap=2)
    )


def scale_picture(picture: Pixels, width: int, height: int) -> Pixels:
    """The picture at another size, RGB [height, width, 3]."""
    if picture.shape[:2] == (height, width):
        return picture
    shrinks = width < picture.shape[1]
    return np.asarray(
        cv2.resize(
            picture, (width, height), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC
        ),
        np.uint8,
    )
