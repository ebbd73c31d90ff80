"""What is done to the pictures that the tower is trained on: damage, at the size of a file or as small as a judge sees it.

A video is damaged at its own size and shrunk then, which leaves softer edges than damage to what was shrunk already.
"""

import numpy as np

from vrthinker_core.training.drawn_world.rendering.damage import DAMAGES, FAINTEST, REFERENCE_SIDE, add_noise
from vrthinker_core.training.drawn_world.rendering.textures import Pixels
from vrthinker_core.training.drawn_world.rendering.wear import as_the_judge_sees, code_jpeg, draw_file_size, scale_picture
from vrthinker_core.training.drawn_world.varied_faults import GRAINS

DAMAGE_SHARES = {"blurry": 0.12, "noisy": 0.12, "blocky": 0.12, "dark": 0.21, "bright": 0.22, "banded": 0.21}
"""Of damaged pictures. What changes the light hides things in their ground: their places are misread up to four times as often."""
AT_FILE_SIZE = 0.5  # Share of damage that is done to an enlarged picture
FILE_SIDES = 160, 320  # Pixels of that one's shorter side, least and most
MOST_DETAIL = 4.0  # Standard deviation, at most, of the grain that stands for what an enlarged picture lacks, in display levels
LEAST_QUALITY, BEST_QUALITY = 55, 95  # Of the JPEG that stands for what a codec leaves


def damage_picture(picture: Pixels, rng: np.random.Generator) -> tuple[Pixels, str]:
    """The picture, RGB [side, side, 3], with a random damage, and the word for that."""
    state = str(rng.choice(list(DAMAGE_SHARES), p=list(DAMAGE_SHARES.values())))
    if rng.random() >= AT_FILE_SIZE:
        return _with_damage(picture, state, rng), state
    return as_the_judge_sees(_with_damage(_enlarged(picture, rng), state, rng), picture.shape[0]), state


def wear_picture(picture: Pixels, rng: np.random.Generator) -> Pixels:
    """The picture after a codec of random quality."""
    return code_jpeg(picture, int(rng.integers(LEAST_QUALITY, BEST_QUALITY + 1)))


def _with_damage(picture: Pixels, state: str, rng: np.random.Generator) -> Pixels:
    strength = rng.uniform(FAINTEST, 1)
    if state != "noisy":
        return DAMAGES[state](picture, strength, rng)
    grain = int(rng.choice(GRAINS))
    return add_noise(picture, strength + (grain > REFERENCE_SIDE), rng, grain)


def _enlarged(picture: Pixels, rng: np.random.Generator) -> Pixels:
    """The picture at the size of some file, with a fine grain."""
    width, height = draw_file_size(rng, FILE_SIDES)
    large = scale_picture(picture, width, height)
    grain = rng.standard_normal((height, width, 1), np.float32) * np.float32(rng.uniform(0, MOST_DETAIL))
    return np.asarray(np.clip(large + grain, 0, 255), np.uint8)
