"""Draws solids on a ground, by casting rays: solids in, one picture out.

The ground never moves, so it is drawn once for each clip; of every frame only the pixels that a solid or its shadow can reach are
shaded again. A pixel is one sample at its middle; at the edges of solids it is the mean of `supersample` x `supersample` samples.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from vrthinker_core.drawn import light as lighting
from vrthinker_core.drawn.camera import Box, Camera
from vrthinker_core.drawn.photographs import PHOTO, ground_of_photo
from vrthinker_core.drawn.solids import MISS, Floats, Solid
from vrthinker_core.drawn.textures import EXTENT, SIDE, VARIANTS, Pixels, texture

SHADOW_BLUR = (
    0.007  # How much a shadow's rim is blurred (one sigma), as a share of the picture's side
)
EDGE_CONTRAST = 24  # Display levels between neighbouring pixels from which an edge is supersampled


@dataclass(frozen=True, slots=True)
class Background:
    """What is the same in all frames of a clip: ground, camera, light."""

    ground: str
    variant: int  # Which of the ground's textures
    rotation: float  # Of the texture, radians
    shift: tuple[float, float]  # Of the texture, in its own extents
    yaw: float  # Of the camera, degrees
    pitch: float
    brightness: float  # Of all light, about 1
    photos: Path | None = None  # The folder that a ground of photographs is taken from


def draw_background(rng: np.random.Generator, ground: str) -> Background:
    """A random background on `ground`. Planks, tiles and ripples lie across the view; grass and marble are rotated at random."""
    return Background(
        ground=ground,
        variant=int(rng.integers(VARIANTS)),
        rotation=rng.uniform(0, 2 * math.pi) if ground in ("grass", "marble") else 0.0,
        shift=(rng.random(), rng.random()),
        yaw=rng.uniform(-8, 8),
        pitch=rng.uniform(27, 36),
        brightness=rng.uniform(0.85, 1.1),
    )


class Renderer:
    """Draws solids on one background at one size; the same solids always give the same picture."""

    def __init__(self, background: Background, size: int, supersample: int = 1) -> None:
        """Draw the empty ground, `size` pixels a side, with `supersample` x `supersample` samples a pixel."""
        self.size = size
        self._supersample = supersample
        self._brightness = np.float32(background.brightness)
        self._camera = Camera(background.yaw, background.pitch, size)
        centers = self._camera.pixel_centers(self._camera.full_box)
        self._ground_positions = self._camera.intersect_ground(centers)[1].reshape(size, size, 3)
        self._ground_rgb = _ground_albedo(background, self._camera, supersample)
        self._empty_ground = lighting.to_display(
            self._ground_rgb * ((lighting.AMBIENT + lighting.DIRECT) * self._brightness)
        )

    def render(self, solids: tuple[Solid, ...]) -> Pixels:
        """The picture with these solids on the ground: RGB [size, size, 3]."""
        ground = self._empty_ground.copy()
        self._cast_shadows(ground, solids)
        picture = ground.copy()
        boxes = [self._camera.box(solid.corners, margin=2) for solid in solids]
        # Where edges are not supersampled, each pixel is independent of the others in its box, and need be cast only once.
        for box in boxes if self._supersample > 1 else _merged(boxes):
            inside = tuple(
                solid for solid, other in zip(solids, boxes, strict=True) if _overlap(box, other)
            )
            picture[box] = self._with_solids(ground[box], box, inside, solids)
        return picture

    def _cast_shadows(self, picture: Pixels, solids: tuple[Solid, ...]) -> None:
        """Darken the ground of `picture` around and behind the solids."""
        sunlight, contact = (np.ones((self.size, self.size), np.float32) for _ in range(2))
        blur = SHADOW_BLUR * self.size
        changed: list[Box] = []
        for solid in solids:
            box = self._camera.box(lighting.shadow_corners(solid), margin=2)
            base_box = self._camera.box(lighting.contact_corners(solid), margin=0)
            positions = self._ground_positions[box]
            shadow = lighting.in_shadow(positions.reshape(-1, 3), solid).reshape(
                positions.shape[:2]
            )
            sunlight[box][shadow] = lighting.SHADOW_SUNLIGHT
            contact[base_box] *= lighting.contact_shading(self._ground_positions[base_box], solid)
            changed += [
                base_box,
                self._camera.box(lighting.shadow_corners(solid), margin=2 + 3 * blur),
            ]
        blurred = np.asarray(cv2.GaussianBlur(sunlight, (0, 0), blur), np.float32)
        for box in changed:
            light = (
                (lighting.AMBIENT + lighting.DIRECT * blurred[box])
                * contact[box]
                * self._brightness
            )
            picture[box] = lighting.to_display(self._ground_rgb[box] * light[..., None])

    def _with_solids(
        self, ground: Pixels, box: Box, inside: tuple[Solid, ...], solids: tuple[Solid, ...]
    ) -> Pixels:
        """The pixels of a box [h, w, 3] with the solids `inside` it drawn over its `ground`; `solids` may shade them."""
        points, under = self._camera.pixel_centers(box), ground.reshape(-1, 3)
        colours, hits = self._cast_rays(points, under, inside, solids)
        if self._supersample > 1:
            edge = np.nonzero(
                _edges(colours.reshape(ground.shape), hits.reshape(ground.shape[:2])).ravel()
            )[0]
            subpixels = (
                points[edge, None] + self._camera.subpixel_offsets(self._supersample)
            ).reshape(-1, 2)
            sampled, _ = self._cast_rays(
                subpixels, np.repeat(under[edge], self._supersample**2, axis=0), inside, solids
            )
            colours[edge] = sampled.reshape(len(edge), self._supersample**2, 3).mean(1)
        return colours.reshape(ground.shape)

    def _cast_rays(
        self, points: Floats, under: Pixels, inside: tuple[Solid, ...], solids: tuple[Solid, ...]
    ) -> tuple[Pixels, NDArray[np.bool_]]:
        """Colours [n, 3] at image points [n, 2], those of the ground `under` where no solid is hit; and where one is hit, [n]."""
        rays, colours = self._camera.rays(points), under.copy()
        nearest = np.full(len(points), MISS, np.float32)
        for solid in inside:
            distance, normals = solid.intersect(self._camera.eye, rays)
            rows = np.nonzero(distance < nearest)[0]
            nearest[rows] = distance[rows]
            positions = self._camera.eye + distance[rows, None] * rays[rows]
            light = lighting.shade_solid(solid, positions, rays[rows], normals[rows], solids)
            colours[rows] = lighting.to_display(light * self._brightness)
        return colours, np.isfinite(nearest)


def _ground_albedo(background: Background, camera: Camera, supersample: int) -> Floats:
    """The colour of the ground before it is lit, with haze in the distance: [size, size, 3] in 0..1."""
    size = camera.size
    image = _smooth_texture(
        background.ground,
        background.variant,
        background.photos,
        max(0.3, 130 / (size * supersample)),
    )
    # Whole tiles fit into a texture, so it repeats; the others would show a seam, and are mirrored.
    border = cv2.BORDER_WRAP if background.ground == "tiles" else cv2.BORDER_REFLECT
    c, s = math.cos(background.rotation), math.sin(background.rotation)
    to_texture = np.array([[c, -s], [s, c]], np.float32) / np.float32(EXTENT)
    points, total = camera.pixel_centers(camera.full_box), np.zeros((size, size, 3), np.float32)
    for step in camera.subpixel_offsets(supersample):
        distance, positions = camera.intersect_ground(points + step)
        texels = (
            (positions[:, ::2] @ to_texture + np.array(background.shift, np.float32)) * (SIDE - 1)
        ).reshape(size, size, 2)
        haze = np.clip((distance - 9) / 22, 0, 1).reshape(size, size, 1)
        sampled = cv2.remap(
            image, texels[..., 0], texels[..., 1], cv2.INTER_LINEAR, borderMode=border
        )
        total += sampled * ((1 - haze) / 255) + np.float32(0.75) * haze
    return total / np.float32(supersample**2)


@lru_cache(maxsize=64)
def _smooth_texture(ground: str, variant: int, photos: Path | None, sigma: float) -> Pixels:
    """The texture of a ground without what is finer than a sample of the picture."""
    plain = ground_of_photo(variant, photos) if ground == PHOTO else texture(ground, variant)
    return np.asarray(cv2.GaussianBlur(plain, (0, 0), sigma), np.uint8)


def _edges(colours: Pixels, hits: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Pixels on or beside a solid, [h, w], whose neighbours look different."""
    cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
    red, green, blue = cv2.split(cv2.morphologyEx(colours, cv2.MORPH_GRADIENT, cross))
    near = cv2.dilate(hits.astype(np.uint8), cross) > 0
    return near & (cv2.max(cv2.max(red, green), blue) > EDGE_CONTRAST)


def _merged(boxes: list[Box]) -> list[Box]:
    """Boxes of which no two overlap, around these."""
    apart: list[Box] = []
    for added in boxes:
        box = added
        while touching := [other for other in apart if _overlap(box, other)]:
            apart = [other for other in apart if other not in touching]
            sides = zip(box, *touching, strict=True)
            rows, columns = (
                slice(min(s.start for s in side), max(s.stop for s in side)) for side in sides
            )
            box = rows, columns
        apart.append(box)
    return apart


def _overlap(one: Box, other: Box) -> bool:
    return all(a.start < b.stop and b.start < a.stop for a, b in zip(one, other, strict=True))
