"""Words for what came beside a reply: how likely each label was, and reasoning that was told apart from it."""

from vrthinker_core.types import Preference
from vrthinker_core.types.messages import LabelProbabilities
from vrthinker_core.types.wording import LABEL_NAMES, TELLING, percent

ASIDE = "Reasoning, aside"
ASIDE_PASSAGE = "Received beside the reply, turn {}"
ASIDE_HELP = (
    "What the judge thought beside its reply. It is kept, and never sent back to the judge."
)
_MEANS = "After all it had written before, the judge was {} likely to write this label ({})."
_MEANS_NOT = "That does not say how often such labels are right."


def probability_words(
    label: Preference | None, probabilities: LabelProbabilities | None
) -> list[str]:
    """[percentage, what it means] of a label; [] if it is not known, or too near to certain to tell anybody anything."""
    if label is None or probabilities is None or probabilities[label] >= TELLING:
        return []
    share = percent(probabilities[label])
    others = ", ".join(
        f"{LABEL_NAMES[each]}: {percent(probabilities[each])}"
        for each in Preference
        if each is not label
    )
    return [share, f"{_MEANS.format(share, others)} {_MEANS_NOT}"]


def aside_heading(characters: int) -> str:
    """What the folded reasoning of a turn is called."""
    return f"{ASIDE} ({characters:,} characters)"
