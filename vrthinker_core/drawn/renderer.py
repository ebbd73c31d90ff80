"""Draws solids on a ground by casting rays: solids in, one picture out.

The ground never moves, so it is drawn once for each clip; of every frame only the pixels that a
solid or its shadow can reach are shaded again. A pixel is one sample at its middle; at the edges of
solids it is the mean of `supersample` x `supersample` samples.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from vrthinker_core.drawn import light as lighting
from vrthinker_core.drawn.solids import MISS, Floats, Solid, unit
from vrthinker_core.drawn.textures import EXTENT, SIDE, VARIANTS, Pixels, texture

TARGET = np.array([0, 0.3, 0], np.float32)  # The position in the middle of every picture
# Half of the picture's side at distance 1: the field of view is 34 degrees
TAN_HALF_FOV = np.float32(np.tan(np.radians(17)))
Box = tuple[slice, slice]  # Rows and columns of a picture


@dataclass(frozen=True)
class Camera:
    """A camera at `yaw` and `pitch` (degrees) about the target.

    Its picture has `size` x `size` pixels. Image points (x, y) run from 0 to 1, rightwards and
    downwards. A pitch above 20 keeps the horizon out of the picture.
    """

    yaw: float
    pitch: float
    size: int

    @cached_property
    def eye(self) -> Floats:
        """The position of the camera, [3]."""
        yaw, pitch = np.radians(self.yaw), np.radians(self.pitch)
        level = np.cos(pitch)
        backward = np.array([np.sin(yaw) * level, np.sin(pitch), np.cos(yaw) * level])
        return TARGET + (9.5 * backward).astype(np.float32)

    @cached_property
    def axes(self) -> Floats:
        """Right, up and forward: rows of length 1, [3, 3]."""
        forward = unit((TARGET - self.eye)[None])
        right = unit(np.cross(forward, np.array([[0, 1, 0]], np.float32)))
        return np.concatenate([right, np.cross(right, forward), forward])

    def pixel_centers(self, box: Box = np.s_[:, :]) -> Floats:
        """Return image points [n, 2] of a box's pixel middles, row by row."""
        middles = np.arange(self.size, dtype=np.float32) + np.float32(0.5)
        rows, columns = (middles[side] for side in box)
        y, x = np.meshgrid(rows / self.size, columns / self.size, indexing="ij")
        return np.stack([x.ravel(), y.ravel()], -1)

    def subpixel_offsets(self, supersample: int) -> Floats:
        """Return evenly spread offsets [supersample ** 2, 2] from a pixel's middle."""
        half = np.float32(0.5)
        steps = ((np.arange(supersample, dtype=np.float32) + half) / supersample - half) / self.size
        y, x = np.meshgrid(steps, steps, indexing="ij")
        return np.stack([x.ravel(), y.ravel()], -1)

    def rays(self, points: Floats) -> Floats:
        """Return directions [n, 3] of length 1 through image points [n, 2]."""
        x, y = points.T
        right, up = (2 * x - 1) * TAN_HALF_FOV, (1 - 2 * y) * TAN_HALF_FOV
        return unit(np.stack([right, up, np.ones_like(x)], -1) @ self.axes)

    def project(self, positions: Floats) -> Floats:
        """Map world positions [n, 3] before the camera to image points [n, 2]."""
        across, up, depth = ((positions - self.eye) @ self.axes.T).T
        side = 2 * depth * TAN_HALF_FOV
        return np.stack([across / side + 0.5, 0.5 - up / side], -1)

    def box(self, positions: Floats, margin: float) -> Box:
        """Return the pixels that hold all world positions [n, 3].

        They have `margin` more on every side, as far as the picture goes.
        """
        points = self.project(positions) * self.size
        left, top = np.clip(np.floor(points.min(0) - margin), 0, self.size).astype(int).tolist()
        right, bottom = np.clip(np.ceil(points.max(0) + margin), 0, self.size).astype(int).tolist()
        return slice(top, bottom), slice(left, right)

    def intersect_ground(self, points: Floats) -> tuple[Floats, Floats]:
        """Return (distance [n], position [n, 3]) of the ground at image points [n, 2]."""
        rays = self.rays(points)
        distance: Floats = -self.eye[1] / rays[:, 1]
        return distance, self.eye + distance[:, None] * rays


@dataclass(frozen=True, slots=True)
class Background:
    """The ground, camera and light of all frames of a clip."""

    ground: str
    variant: int  # Which of the ground's textures
    rotation: float  # Of the texture, radians
    shift: tuple[float, float]  # Of the texture, in its own extents
    yaw: float  # Of the camera, degrees
    pitch: float
    brightness: float  # Of all light, about 1


def draw_background(rng: np.random.Generator, ground: str) -> Background:
    """Return a random background on `ground`.

    Planks, tiles and ripples lie across the view; grass and marble are rotated at random.
    """
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
    """A renderer of solids on one background at one size.

    The same solids always give the same picture.
    """

    def __init__(self, background: Background, size: int, supersample: int = 1) -> None:
        """Draw the empty ground, `size` pixels a side."""
        self.size = size
        self._supersample = supersample
        self._brightness = np.float32(background.brightness)
        self._camera = Camera(background.yaw, background.pitch, size)
        centers = self._camera.pixel_centers()
        self._ground_positions = self._camera.intersect_ground(centers)[1].reshape(size, size, 3)
        self._ground_rgb = _ground_albedo(background, self._camera, supersample)
        self._empty_ground = lighting.to_display(
            self._ground_rgb * ((lighting.AMBIENT + lighting.DIRECT) * self._brightness)
        )

    def render(self, solids: tuple[Solid, ...]) -> Pixels:
        """Return the picture of these solids, RGB [size, size, 3]."""
        ground = self._empty_ground.copy()
        self._cast_shadows(ground, solids)
        picture = ground.copy()
        boxes = [self._camera.box(solid.corners, margin=2) for solid in solids]
        # Without supersampling, pixels do not depend on their box: each is cast only once
        for box in boxes if self._supersample > 1 else _merged(boxes):
            inside = [one for one, other in zip(solids, boxes, strict=True) if _overlap(box, other)]
            picture[box] = self._with_solids(ground[box], box, inside, solids)
        return picture

    def _cast_shadows(self, picture: Pixels, solids: tuple[Solid, ...]) -> None:
        """Darken the ground of `picture` around and behind the solids."""
        sunlight, contact = (np.ones((self.size, self.size), np.float32) for _ in range(2))
        blur = 0.007 * self.size  # Of a shadow's rim, one sigma
        changed: list[Box] = []
        for solid in solids:
            corners = lighting.shadow_corners(solid)
            box = self._camera.box(corners, margin=2)
            base_box = self._camera.box(lighting.contact_corners(solid), margin=0)
            positions = self._ground_positions[box]
            shadow = lighting.in_shadow(positions.reshape(-1, 3), solid)
            sunlight[box][shadow.reshape(positions.shape[:2])] = lighting.SHADOW_SUNLIGHT
            contact[base_box] *= lighting.contact_shading(self._ground_positions[base_box], solid)
            changed += [base_box, self._camera.box(corners, margin=2 + 3 * blur)]
        blurred = np.asarray(cv2.GaussianBlur(sunlight, (0, 0), blur), np.float32)
        for box in changed:
            light = (lighting.AMBIENT + lighting.DIRECT * blurred[box]) * contact[box]
            light = self._ground_rgb[box] * (light * self._brightness)[..., None]
            picture[box] = lighting.to_display(light)

    def _with_solids(
        self, ground: Pixels, box: Box, inside: Sequence[Solid], solids: tuple[Solid, ...]
    ) -> Pixels:
        """Draw the solids `inside` a box over its `ground` [h, w, 3]."""
        points, under = self._camera.pixel_centers(box), ground.reshape(-1, 3)
        colours, hits = self._cast_rays(points, under, inside, solids)
        if (samples := self._supersample**2) > 1:
            # Pixels on or beside a solid whose neighbours differ by 24 display levels
            cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
            gradient = cv2.morphologyEx(colours.reshape(ground.shape), cv2.MORPH_GRADIENT, cross)
            red, green, blue = cv2.split(gradient)
            near = cv2.dilate(hits.reshape(ground.shape[:2]).astype(np.uint8), cross) > 0
            edges = near & (cv2.max(cv2.max(red, green), blue) > 24)
            edge = np.nonzero(edges.ravel())[0]
            offsets = self._camera.subpixel_offsets(self._supersample)
            subpixels = (points[edge, None] + offsets).reshape(-1, 2)
            below = np.repeat(under[edge], samples, axis=0)
            sampled, _ = self._cast_rays(subpixels, below, inside, solids)
            colours[edge] = sampled.reshape(len(edge), samples, 3).mean(1)
        return colours.reshape(ground.shape)

    def _cast_rays(
        self, points: Floats, under: Pixels, inside: Sequence[Solid], solids: tuple[Solid, ...]
    ) -> tuple[Pixels, NDArray[np.bool_]]:
        """Return (colours [n, 3], whether a solid is hit [n]) at points [n, 2].

        A point that misses keeps the colour of the ground `under` it.
        """
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
    """Return the unlit ground with haze, [size, size, 3] in 0..1."""
    size, ground = camera.size, background.ground
    sigma = max(0.3, 130 / (size * supersample))
    image = _smooth_texture(ground, background.variant, sigma)
    # Whole tiles fit into a texture, so it repeats; the others would show a seam, and are mirrored.
    border = cv2.BORDER_WRAP if ground == "tiles" else cv2.BORDER_REFLECT
    c, s = math.cos(background.rotation), math.sin(background.rotation)
    to_texture = np.array([[c, -s], [s, c]], np.float32) / np.float32(EXTENT)
    shift = np.array(background.shift, np.float32)
    points, total = camera.pixel_centers(), np.zeros((size, size, 3), np.float32)
    for step in camera.subpixel_offsets(supersample):
        distance, positions = camera.intersect_ground(points + step)
        texels = (positions[:, ::2] @ to_texture + shift) * (SIDE - 1)
        x, y = texels.reshape(size, size, 2).transpose(2, 0, 1)
        haze = np.clip((distance - 9) / 22, 0, 1).reshape(size, size, 1)
        sampled = cv2.remap(image, x, y, cv2.INTER_LINEAR, borderMode=border)
        total += sampled * ((1 - haze) / 255) + np.float32(0.75) * haze
    return total / np.float32(supersample**2)


@lru_cache(maxsize=64)
def _smooth_texture(ground: str, variant: int, sigma: float) -> Pixels:
    """Return the texture of a ground without details finer than a sample."""
    return np.asarray(cv2.GaussianBlur(texture(ground, variant), (0, 0), sigma), np.uint8)


def _merged(boxes: list[Box]) -> list[Box]:
    """Return boxes around these boxes that do not overlap."""
    apart: list[Box] = []
    for box in boxes:
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
