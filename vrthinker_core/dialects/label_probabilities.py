"""Label probabilities: how likely the judge was to write each label of a verdict, from the tokens of the reply that gave it."""

from collections.abc import Sequence

from vrthinker_core.dialects.reading.reply import label_places
from vrthinker_core.types import Dimension, Turn, Verdict
from vrthinker_core.types.messages import Completion, LabelProbabilities

MAX_CHARACTERS = 100_000  # Of a reply that is looked through: a judge writes far less, and a page reads it at each update


def label_probabilities(
    completion: Completion, verdict: Verdict | None
) -> dict[Dimension, LabelProbabilities]:
    """Of each label in `verdict`, which was read from this completion, as far as its backend tells them. Never raises.

    Where an answer says a label twice, the first digit counts: the second one only repeats it.
    """
    if verdict is None or not completion.label_tokens or len(completion.text) > MAX_CHARACTERS:
        return {}
    known = {token.offset: token.probabilities for token in completion.label_tokens}
    places = label_places(completion.text, cut=completion.stop != "end")
    said = [dimension for dimension, label in verdict if label is not None]
    return {each: known[places[each]] for each in said if places.get(each) in known}


def verdict_probabilities(
    turns: Sequence[Turn], verdict: Verdict | None
) -> dict[Dimension, LabelProbabilities]:
    """Of each label in the verdict of a run, from the last of its turns that gave it."""
    giving = next(
        (turn for turn in reversed(turns) if verdict is not None and turn.reply.verdict == verdict),
        None,
    )
    return {} if giving is None else label_probabilities(giving.completion, verdict)
