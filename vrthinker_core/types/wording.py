"""What page and terminal call the dimensions and the labels of a verdict."""

from vrthinker_core.types.comparison import Dimension, Preference

DIMENSION_NAMES = dict(zip(Dimension, ("Text alignment", "Motion quality", "Visual quality", "Overall"), strict=True))

LABEL_NAMES = {Preference.TIE: "tie", Preference.FIRST: "video 1", Preference.SECOND: "video 2", None: "not said"}
"""As they stand within a sentence; None is a label that the judge did not give."""
