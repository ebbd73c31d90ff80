"""One row of a data set: a pair of videos with what people said of it, whatever layout it was published in."""

import hashlib
from dataclasses import dataclass

from vrthinker_core.types import Verdict, VideoPair


@dataclass(frozen=True, slots=True)
class EvaluationPair:
    """A pair to be judged. One with a `fault` is a broken row, one with `left_out` is none: both are named, and never judged."""

    id: str  # Unique in its data set, and the same wherever the row stands: see `pair_id`
    row: int  # Data row in the file, 1-based
    prompt: str
    first: str  # Path of the video, as it can be opened
    second: str
    labels: Verdict = Verdict()  # People's; None in a dimension where they gave none
    first_generator: str = ""  # The model that made the first video; "" where that is not known
    second_generator: str = ""
    fault: str = ""  # Why the row cannot be judged, in one sentence
    left_out: str = ""  # Why it is not to be judged although nothing is wrong with it: people themselves could not say

    @property
    def videos(self) -> VideoPair:
        """What a judge is given."""
        return VideoPair(self.prompt, self.first, self.second)


def pair_id(prompt: str, first: str, second: str) -> str:
    """The id of a pair: from its prompt and its videos as the data set names them, not from the folder it lies in."""
    return hashlib.sha256(
        "\n".join((prompt, first, second)).encode("utf-8", "replace")
    ).hexdigest()[:16]
