"""Label probabilities of a verdict, from the tokens of its reply."""

from collections.abc import Sequence

from vrthinker_core.protocols.parser import label_places
from vrthinker_core.types import Dimension, Turn, Verdict
from vrthinker_core.types.messages import Completion, LabelProbabilities

# Of a reply that is read: a judge writes far less, and a page reads the reply at each update
MAX_CHARACTERS = 100_000


def label_probabilities(
    completion: Completion, verdict: Verdict | None
) -> dict[Dimension, LabelProbabilities]:
    """Return the probabilities of each label in `verdict`.

    `verdict` was read from this completion. A label is left out if the backend does not tell its
    probabilities. If an answer says a label twice, the first digit counts: the second only repeats
    it. Never raises.
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
    """Return label probabilities from the last turn that gave the verdict."""
    giving = next(
        (turn for turn in reversed(turns) if verdict is not None and turn.reply.verdict == verdict),
        None,
    )
    return {} if giving is None else label_probabilities(giving.completion, verdict)
