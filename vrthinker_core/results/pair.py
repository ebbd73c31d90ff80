"""One row of a data set: two videos with people's labels."""

import hashlib
from dataclasses import dataclass

from vrthinker_core.types import Verdict, VideoPair


@dataclass(frozen=True, slots=True)
class EvaluationPair:
    """A pair to judge, in any published layout.

    A pair with a `fault` is a broken row. A pair with `fault` or `left_out` is never judged.
    """

    id: str  # unique in its data set and independent of the row: see `pair_id`
    row: int  # data row in the file, 1-based
    prompt: str
    first: str  # path of the video, ready to open
    second: str
    labels: Verdict = Verdict()  # of people; None in a dimension without a label
    first_generator: str = ""  # model that made the first video; "" if unknown
    second_generator: str = ""
    fault: str = ""  # why the row cannot be judged, in one sentence
    left_out: str = ""  # why a sound row is not judged: people could not decide

    @property
    def videos(self) -> VideoPair:
        """The pair as a judge gets it."""
        return VideoPair(self.prompt, self.first, self.second)


def pair_id(prompt: str, first: str, second: str) -> str:
    """Return the id of a pair, 16 hex digits.

    Made from the prompt and the video names in the data set, not from the data set's folder.
    """
    return hashlib.sha256(
        "\n".join((prompt, first, second)).encode("utf-8", "replace")
    ).hexdigest()[:16]
