"""A teacher that notes wrong motion words, as a judge does, so that the right ones can be learnt in front of them.

A model that has read right words alone goes on with the one it wrote last: where a clip moves evenly up to a freeze, it writes
"moves" there too, as no frame that it has learnt from stood behind a wrong word. To imitate a teacher who corrects what the pupil
wrote is the cure: Ross et al., "A Reduction of Imitation Learning and Structured Prediction to No-Regret Online Learning" (2011).
"""

from types import MappingProxyType

import numpy as np

from vrthinker_core.training.drawn_teacher.evidence import Misreader
from vrthinker_core.training.drawn_teacher.phrases import HARDLY, JUMPS, MOVES
from vrthinker_core.types import Side

ALWAYS = 0.6  # Share of videos of which it notes one and the same word at every frame
WORDS = MappingProxyType({MOVES: 0.6, HARDLY: 0.2, JUMPS: 0.2})
"""Which that is, by its share."""
ANY = 0.5  # Share of the frames of other videos at which it notes any of these words


def draw_misreader(rng: np.random.Generator) -> Misreader:
    """How the motion of a pair is misread."""
    words, shares = list(WORDS), list(WORDS.values())
    always = {side: str(rng.choice(words, p=shares)) for side in Side if rng.random() < ALWAYS}

    def misread(side: Side, word: str) -> str:
        return always.get(side) or (str(rng.choice(words)) if rng.random() < ANY else word)

    return misread
