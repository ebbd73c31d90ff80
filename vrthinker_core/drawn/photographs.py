"""Photographs of a folder, or procedural clouds where there is none, and a camera that moves over one of them."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from vrthinker_core.drawn.solids import Floats
from vrthinker_core.drawn.textures import GROUNDS, SIDE, VARIANTS, Pixels, texture, value_noise
from vrthinker_core.drawn.tone import Tone
from vrthinker_core.errors import BadInput

PHOTO = "photo"  # What a photograph is called as a ground
CLOUDS = 24  # Procedural pictures that stand in for photographs
MEAN_LEVELS = (
    70,
    165,
)  # Display levels between which the mean of a picture is brought: too dark or too bright is a fault
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
CACHED_PICTURES, CACHED_GROUNDS = 128, 48  # Kept in memory, some 1 to 3 MB each


@dataclass(frozen=True, slots=True)
class Mover:
    """A patch of another picture, with soft edges, that moves over the view. Lengths are sides of the view."""

    number: int  # Which of the photographs
    size: float
    middle: tuple[
        float, float
    ]  # Where it is at the middle of the clip, rightwards and downwards from the view's corner
    travel: tuple[float, float]  # During the clip


@dataclass(frozen=True, slots=True)
class FlatView:
    """A camera that looks straight at a picture and moves over it, or stands still while something passes.

    Lengths are sides of the view at the start.
    """

    picture: str  # PHOTO or one of GROUNDS
    number: int  # Which of the photographs or variants; those of a folder begin again after the last one
    photos: Path | None
    center: tuple[
        float, float
    ]  # Of the view at the middle of the clip, as shares of the picture's width and height
    side: float  # Height of the view at the start, as a share of the picture's shorter side
    travel: tuple[
        float, float, float
    ]  # During the clip: rightwards, downwards, and by which power of e the view grows
    mirrored: bool
    stretch: float = (
        1.0  # Width by height of what is seen: a judge gets every picture squashed to a square
    )
    sway: float = 0.0  # How far a hand that is not quite still moves the camera
    mover: Mover | None = None
    tone: Tone | None = None  # Of all that is seen

    @property
    def pace(self) -> tuple[float, float, float]:
        """How far what moves most goes during the clip: the camera, or the mover where the camera stands still."""
        return (*self.mover.travel, 0.0) if self.mover and not any(self.travel) else self.travel

    def place(self, time: float, sideways: float) -> Floats:
        """Where the view is at `time` (0..1), `sideways` away from its path: (right, down, power of e), from the path's middle."""
        right, down, growth = self.travel
        length = float(np.hypot(right, down)) or 1.0
        across = np.array([-down, right, 0]) / length if right or down else np.array([1.0, 0, 0])
        return np.array([right, down, growth]) * (time - 0.5) + across * sideways

    def trace(self, time: float, sideways: float) -> Floats:
        """What moves evenly but for faults, [3]: `pace` is how far it goes."""
        place = self.place(time, sideways)
        return place if any(self.travel) else place + np.array(self.pace) * (time - 0.5)


def photo_count(photos: Path | None) -> int:
    """How many different pictures there are. Raises BadInput for a folder without one."""
    return len(photo_paths(photos)) if photos else CLOUDS


@lru_cache(maxsize=4)
def photo_paths(photos: Path) -> tuple[Path, ...]:
    """The pictures of a folder by name. Raises BadInput where there is none."""
    found = sorted(path for path in photos.glob("*") if path.suffix.lower() in SUFFIXES)
    if not found:
        raise BadInput(
            f"{photos} holds no picture (JPEG, PNG or WebP): name a folder of photographs."
        )
    return tuple(found)


@lru_cache(maxsize=CACHED_PICTURES)
def picture(name: str, number: int, photos: Path | None) -> Pixels:
    """A photograph, clouds in its place, or a ground's texture: RGB, its shorter side at most SIDE, read-only."""
    if name in GROUNDS:
        return texture(name, number % VARIANTS)
    pixels = _even_light(
        _read(photo_paths(photos)[number % photo_count(photos)])
        if photos
        else _clouds(number % CLOUDS)
    )
    pixels.setflags(write=False)
    return pixels


@lru_cache(maxsize=CACHED_GROUNDS)
def ground_of_photo(number: int, photos: Path | None) -> Pixels:
    """The middle of a photograph as a texture, RGB [SIDE, SIDE, 3], to be laid on the ground and lit."""
    whole = picture(PHOTO, number, photos)
    height, width = whole.shape[:2]
    side, top, left = min(height, width), max(0, height - width) // 2, max(0, width - height) // 2
    square = cv2.resize(
        whole[top : top + side, left : left + side], (SIDE, SIDE), interpolation=cv2.INTER_AREA
    )
    albedo: Pixels = ((square / np.float32(255)) ** np.float32(1.55) * 255).astype(np.uint8)
    return albedo


class FlatRenderer:
    """Draws what a flat view sees, at one size."""

    def __init__(self, view: FlatView, size: int) -> None:
        """Resize the picture so that a pixel of it is one of the view at the start."""
        self._view, self._size = view, size
        self._picture = _at_scale(view, size)
        self._patch = _patch(view, view.mover, size) if view.mover else None

    def render(self, time: float, sideways: float) -> Pixels:
        """The picture at `time` (0..1), `sideways` away from the camera's path: RGB [size, size, 3]."""
        right, down, growth = self._view.place(time, sideways)
        sway = self._view.sway * np.array(
            [np.sin(17 * time + self._view.number), np.cos(23 * time)]
        )
        height, width = self._picture.shape[:2]
        scale = float(np.exp(growth))
        x = self._view.center[0] * width + (right + sway[0] - scale / 2) * self._size
        y = self._view.center[1] * height + (down + sway[1] - scale / 2) * self._size
        seen = self._warped(
            self._picture, np.array([[scale, 0, x], [0, scale, y]]), cv2.BORDER_REFLECT_101
        )
        return self._with_mover(seen, time, sideways)

    def _with_mover(self, seen: Pixels, time: float, sideways: float) -> Pixels:
        mover = self._view.mover
        if mover is None or self._patch is None:
            return seen
        corner = (
            np.array(mover.middle) + np.array(mover.travel) * (time - 0.5) - mover.size / 2
        ) * self._size
        if not any(self._view.travel):
            corner -= (
                np.array([sideways, 0]) * self._size
            )  # As the camera jumps, so does all that it sees
        patch = self._warped(
            self._patch, np.array([[1, 0, -corner[0]], [0, 1, -corner[1]]]), cv2.BORDER_CONSTANT
        )
        cover = patch[..., 3:] / np.float32(255)
        return (seen + cover * (patch[..., :3] - seen.astype(np.float32))).astype(np.uint8)

    def _warped(self, picture: Pixels, to_picture: NDArray[np.float64], border: int) -> Pixels:
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        return np.asarray(
            cv2.warpAffine(
                picture, to_picture, (self._size, self._size), flags=flags, borderMode=border
            ),
            np.uint8,
        )


def _at_scale(view: FlatView, size: int) -> Pixels:
    whole = picture(view.picture, view.number, view.photos)
    if view.mirrored:
        whole = np.ascontiguousarray(whole[:, ::-1])
    height, width = whole.shape[:2]
    factor = size / (view.side * min(height, width))
    shape = max(1, round(width * factor / view.stretch)), max(1, round(height * factor))
    scaled = np.asarray(
        cv2.resize(whole, shape, interpolation=cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC),
        np.uint8,
    )
    return view.tone.apply(scaled, size) if view.tone else scaled


def _patch(view: FlatView, mover: Mover, size: int) -> Pixels:
    """The mover's colours, and in a fourth channel how much it covers: [side, side, 4]."""
    whole, side = picture(PHOTO, mover.number, view.photos), max(2, round(mover.size * size))
    shorter = min(whole.shape[:2]) // 2
    part = whole[shorter // 2 : shorter // 2 + shorter, :shorter]
    colours = np.asarray(cv2.resize(part, (side, side), interpolation=cv2.INTER_AREA), np.uint8)
    colours = view.tone.apply(colours, size) if view.tone else colours
    line = np.linspace(-1, 1, side, dtype=np.float32)
    cover = np.clip((1 - np.hypot(line[:, None], line[None] * np.float32(1.3))) * 6, 0, 1) * 255
    return np.concatenate([colours, cover.astype(np.uint8)[..., None]], -1)


def _read(path: Path) -> Pixels:
    try:
        with Image.open(path) as image:
            image.draft("RGB", (SIDE, SIDE))
            whole = image.convert("RGB")
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError):
        raise BadInput(f"{path} cannot be read as a picture: take it out of the folder.") from None
    factor = min(1.0, SIDE / min(whole.size))
    width, height = (max(1, round(side * factor)) for side in whole.size)
    return np.asarray(whole.resize((width, height), Image.Resampling.LANCZOS)).copy()


def _clouds(number: int) -> Pixels:
    rng = np.random.default_rng([77, number])
    layers: NDArray[np.floating] = np.stack([value_noise(rng, 7, 0.65) for _ in range(3)], -1)
    return (layers * 255).astype(np.uint8)


def _even_light(pixels: Pixels) -> Pixels:
    """The picture with a mean level between MEAN_LEVELS."""
    mean = float(pixels.mean())
    wanted = float(np.clip(mean, *MEAN_LEVELS))
    if wanted == mean:
        return pixels
    power = np.log(wanted / 255) / np.log(np.clip(mean, 1, 254) / 255)
    levels: Pixels = ((np.arange(256) / 255) ** power * 255).astype(np.uint8)
    return levels[pixels]
