"""Draws scenes by casting rays: textured ground, sunlight and solids.

The ground is drawn once for each clip; of every frame only the pixels that a solid or its shadow
can reach are shaded again. The edges of solids have `supersample` ** 2 samples a pixel.
"""

import math
from functools import lru_cache, partial
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vrthinker_core.drawn.notes import CLEAR, GROUNDS
from vrthinker_core.drawn.solids import MISS, Box, Camera, Floats, Pixels, Solid, dot, grid, unit
from vrthinker_core.drawn.world import Fault, Scene

# Unit vector towards the sun, [3]
SUN_DIRECTION: Floats = unit(np.array([[-0.45, 0.8, 0.4]], np.float32))[0]
AMBIENT, DIRECT = 0.34, 0.78  # Light on the ground from the sky, and from the sun
SHADOW_SUNLIGHT = 0.38  # Share of the sunlight that is left in a shadow on the ground
EXTENT = 9.0  # World units that one texture covers per side
SIDE = 768  # Pixels of a texture per side
REFERENCE_SIDE = 112  # Pixels a side that the built-in judge sees: damage scales with the picture


class SceneRenderer:
    """A scene at one size, drawn frame by frame in any order."""

    def __init__(self, scene: Scene, size: int, supersample: int = 1) -> None:
        """Draw the empty ground, `size` pixels a side."""
        background = scene.background
        self._scene, self._size, self._supersample = scene, size, supersample
        self._brightness = np.float32(background.brightness)
        self._camera = Camera(background.yaw, background.pitch, size)
        points = grid(size)
        # From a pixel's middle to its samples
        self._offsets = (grid(supersample) - np.float32(0.5)) / size
        self._points = points.reshape(size, size, 2)
        _, positions = self._camera.intersect_ground(points)
        self._ground_positions = positions.reshape(size, size, 3)
        self._ground_rgb = self._ground_albedo(points)
        full = (AMBIENT + DIRECT) * self._brightness
        self._empty_ground = _to_display(self._ground_rgb * full)

    def _ground_albedo(self, points: Floats) -> Floats:
        """Return the unlit ground with haze, [size, size, 3] in 0..1."""
        size, ground = self._size, self._scene.facts.ground
        background = self._scene.background
        sigma = max(0.3, 130 / (size * self._supersample))
        image = _texture(ground, background.variant, sigma)
        # Whole tiles fit into a texture, so it repeats; others would show a seam, and are mirrored
        border = cv2.BORDER_WRAP if ground == "tiles" else cv2.BORDER_REFLECT
        c, s = math.cos(background.rotation), math.sin(background.rotation)
        to_texture = np.array([[c, -s], [s, c]], np.float32) / np.float32(EXTENT)
        shift = np.array(background.shift, np.float32)
        total = np.zeros((size, size, 3), np.float32)
        for step in self._offsets:
            distance, positions = self._camera.intersect_ground(points + step)
            texels = (positions[:, ::2] @ to_texture + shift) * (SIDE - 1)
            x, y = texels.reshape(size, size, 2).transpose(2, 0, 1)
            haze = np.clip((distance - 9) / 22, 0, 1).reshape(size, size, 1)
            sampled = cv2.remap(image, x, y, cv2.INTER_LINEAR, borderMode=border)
            total += sampled * ((1 - haze) / 255) + np.float32(0.75) * haze
        return total / np.float32(len(self._offsets))

    def frame(self, index: int) -> Pixels:
        """Return frame `index` (0..127) of the clip: RGB [size, size, 3]."""
        solids, fault = self._scene.solids(index), self._scene.picture_fault
        ground = self._shaded_ground(solids)
        picture = ground.copy()
        for solid in solids:
            box = self._camera.box(solid.corners, margin=2)
            shape, samples = ground[box].shape, len(self._offsets)
            points, under = self._points[box].reshape(-1, 2), ground[box].reshape(-1, 3)
            colours, hits = self._cast_rays(points, under, solids)
            if samples > 1:
                # Pixels on or beside a solid whose neighbours differ by 24 display levels
                cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
                gradient = cv2.morphologyEx(colours.reshape(shape), cv2.MORPH_GRADIENT, cross)
                near = cv2.dilate(hits.reshape(shape[:2]).astype(np.uint8), cross) > 0
                edge = np.nonzero((near & (gradient.max(-1) > 24)).ravel())[0]
                subpixels = (points[edge, None] + self._offsets).reshape(-1, 2)
                below = np.repeat(under[edge], samples, axis=0)
                sampled, _ = self._cast_rays(subpixels, below, solids)
                colours[edge] = sampled.reshape(len(edge), samples, 3).mean(1)
            picture[box] = colours.reshape(shape)
        state = self._scene.picture_state(index)
        return _damage(picture, state, fault, index) if fault and state != CLEAR else picture

    def _shaded_ground(self, solids: tuple[Solid, ...]) -> Pixels:
        """Return the ground, darker around and behind the solids."""
        ground = self._empty_ground.copy()
        sunlight, contact = (np.ones((self._size, self._size), np.float32) for _ in range(2))
        blur = 0.007 * self._size  # Of a shadow's rim, one sigma
        changed: list[Box] = []
        for solid in solids:
            # The corners along the sunlight to the ground: their hull holds the shadow
            corners = solid.corners
            corners = corners - corners[:, 1:2] * (SUN_DIRECTION / SUN_DIRECTION[1])
            box = self._camera.box(corners, margin=2)
            positions = self._ground_positions[box]
            shadow = _in_shadow(positions.reshape(-1, 3), solid)
            sunlight[box][shadow.reshape(positions.shape[:2])] = SHADOW_SUNLIGHT
            around = np.array([(-1, 0, -1), (-1, 0, 1), (1, 0, -1), (1, 0, 1)], np.float32)
            reach = solid.base + around * np.float32(2.6 * solid.size)
            base_box = self._camera.box(reach, margin=0)
            x, _, z = (self._ground_positions[base_box] - solid.base).transpose(2, 0, 1)
            near = np.exp((x * x + z * z) * np.float32(-0.9 / solid.size**2))
            contact[base_box] *= 1 - np.float32(0.45) * near
            changed += [base_box, self._camera.box(corners, margin=2 + 3 * blur)]
        blurred = np.asarray(cv2.GaussianBlur(sunlight, (0, 0), blur), np.float32)
        for box in changed:
            light = (AMBIENT + DIRECT * blurred[box]) * contact[box]
            ground[box] = _to_display(self._ground_rgb[box] * (light * self._brightness)[..., None])
        return ground

    def _cast_rays(
        self, points: Floats, under: Pixels, solids: tuple[Solid, ...]
    ) -> tuple[Pixels, NDArray[np.bool_]]:
        """Return colours [n, 3] and hits [n] of solids at image points.

        A point that misses keeps the colour of the ground `under` it.
        """
        rays, colours = self._camera.rays(points), under.copy()
        nearest = np.full(len(points), MISS, np.float32)
        for solid in solids:
            distance, normals = solid.intersect(self._camera.eye, rays)
            rows = np.nonzero(distance < nearest)[0]
            nearest[rows] = distance[rows]
            positions = self._camera.eye + distance[rows, None] * rays[rows]
            lit = np.clip(normals[rows] @ SUN_DIRECTION, 0, 1)
            for other in solids:
                if other is not solid:
                    lit = np.where(_in_shadow(positions, other), np.float32(0.3), lit)
            diffuse = 0.30 + 0.12 * np.abs(normals[rows, 1]) + 0.95 * lit
            halfway = unit(SUN_DIRECTION - rays[rows])
            specular = np.clip(dot(normals[rows], halfway), 0, 1) ** 38 * 0.5 * (lit > 0)
            albedo = (np.array(solid.rgb, np.float32) / 255) ** 1.6
            light = albedo * diffuse[:, None] + specular[:, None]
            colours[rows] = _to_display(light * self._brightness)
        return colours, np.isfinite(nearest)


def _damage(picture: Pixels, state: str, fault: Fault, index: int) -> Pixels:
    """Return `picture`, frame `index` as RGB [h, w, 3], in a damaged state."""
    strength, sides = fault.strength, picture.shape[1::-1]
    damaged: NDArray[Any] = picture
    match state:
        case "blurry":
            sigma = (1.6 + 1.6 * strength) * sides[0] / REFERENCE_SIDE
            damaged = cv2.GaussianBlur(picture, (0, 0), sigma)
        case "noisy":
            rng = np.random.default_rng((fault.seed, 1, index))
            shape = REFERENCE_SIDE, REFERENCE_SIDE, 3  # Finer noise fades if seen smaller
            grains = rng.standard_normal(shape, np.float32) * np.float32(22 + 22 * strength)
            damaged = picture + cv2.resize(grains, sides, interpolation=cv2.INTER_NEAREST)
        case "blocky":
            blocks = 18 if strength < 0.5 else 14
            small = cv2.resize(picture, (blocks, blocks), interpolation=cv2.INTER_AREA)
            damaged = cv2.resize(small, sides, interpolation=cv2.INTER_NEAREST)
        case "dark":
            damaged = picture * np.float32(0.38 - 0.12 * strength)
        case "bright":
            damaged = picture * np.float32(1.25 + 0.15 * strength) + 45
        case "banded":
            levels = 4 if strength < 0.5 else 3
            bands = np.floor(picture * np.float32(levels / 256))
            damaged = bands * np.float32(255 / (levels - 1))
    return np.asarray(np.clip(damaged, 0, 255), np.uint8)


def _to_display(light: Floats) -> Pixels:
    """Map light (1 is white) of any shape to display levels, 0..255."""
    return (np.clip(light, 0, 1) ** np.float32(1 / 1.55) * 255).astype(np.uint8)


def _in_shadow(positions: Floats, solid: Solid) -> NDArray[np.bool_]:
    """Return which positions [n, 3] lie in the solid's shadow, [n]."""
    # Rays begin a little off the surface, so that it does not shade itself
    origins = positions + SUN_DIRECTION * np.float32(0.01)
    return np.isfinite(solid.intersect(origins, np.broadcast_to(SUN_DIRECTION, positions.shape))[0])


@lru_cache(maxsize=64)  # 1.8 MB each
def _texture(ground: str, variant: int, sigma: float) -> Pixels:
    """Return a ground's texture, blurred by `sigma`: RGB [SIDE, SIDE, 3]."""
    rng = np.random.default_rng([GROUNDS.index(ground), variant])
    coarse, fine = _value_noise(rng, 6), _value_noise(rng, 7, 0.75, 16)
    line = partial(np.linspace, 0, num=SIDE, dtype=np.float32)  # From 0 to a number
    colour: NDArray[Any]
    match ground:
        case "wood":  # Nine planks, each with its own tint and shifted grain
            row = line(9)[:, None]
            along = cv2.resize(_value_noise(rng, 6, 0.6)[:, : SIDE // 10], (SIDE, SIDE))
            plank = rng.random(10).astype(np.float32)[row.astype(int)]
            rings = 0.5 + 0.5 * np.sin(row * (60 / 9) + along * 9 + plank * 40)
            grain = 0.55 * along + 0.25 * rings + 0.2 * fine
            light = (0.55 + 0.75 * grain) * (0.8 + 0.35 * plank)
            colour = np.array([0.42, 0.25, 0.13]) * light[..., None]
            colour[np.abs(line(9) % 1 - 0.5) > 0.485] *= 0.35
        case "tiles":  # A chequerboard of twelve by twelve with grey joints
            x, base = line(12), rng.uniform(0.35, 0.6, 3)
            odd = (x.astype(int) + x.astype(int)[:, None]) % 2 == 1
            colour = base * (np.where(odd, 1.35, 0.7) * (0.85 + 0.3 * fine))[..., None]
            joint = np.abs(x % 1 - 0.5) > 0.475
            colour[joint] = colour[:, joint] = 0.25
        case "grass":  # Short upright streaks, lighter and darker in patches
            dots = cv2.GaussianBlur(rng.random((SIDE, SIDE), np.float32), (0, 0), 0.8, sigmaY=2.2)
            blades = (dots - dots.min()) / np.ptp(dots)
            red, green = 0.12 + 0.25 * blades + 0.1 * coarse, 0.28 + 0.34 * blades + 0.12 * coarse
            colour = np.stack([red, green, 0.06 + 0.12 * blades], -1)
        case "sand":  # Ripples bent by the coarse noise
            ripples = 0.5 + 0.5 * np.sin(line(110)[:, None] + coarse * 16)
            light = 0.72 + 0.22 * ripples + 0.2 * fine
            colour = np.array([0.72, 0.58, 0.38]) * light[..., None]
        case _:  # Marble: pale stone with thin dark veins
            x = line(1)
            vein = (1 - np.abs(np.sin((x * 5 + x[:, None] * 3 + coarse * 5) * 3.1))) ** 6
            stone = np.array([0.78, 0.78, 0.8]) * (0.85 + 0.2 * fine)[..., None]
            colour = stone - vein[..., None] * np.array([0.42, 0.4, 0.36])
    levels = (np.clip(colour * rng.uniform(0.9, 1.1, 3), 0.02, 1) * 255).astype(np.uint8)
    return np.asarray(cv2.GaussianBlur(levels, (0, 0), sigma), np.uint8)


def _value_noise(
    rng: np.random.Generator, octaves: int, persistence: float = 0.55, coarsest: int = 4
) -> Floats:
    """Return value noise, [SIDE, SIDE] in 0..1.

    The first octave has `coarsest` random values a side. Each next octave has twice as many,
    `persistence` times as high.
    """
    total = np.zeros((SIDE, SIDE), np.float32)
    for octave in range(octaves):
        cells = min(coarsest << octave, SIDE)
        values = rng.random((cells, cells), np.float32)
        noise = cv2.resize(values, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC)
        total += np.float32(persistence**octave) * noise
    return np.asarray((total - total.min()) / np.ptp(total))
