"""Sentences about votes."""

HIDDEN = "Hidden until you vote"
HIDDEN_HELP = (
    "You see what the judge was shown. Its words and its verdict come when you have voted."
)
BAD_VOTE = "This vote could not be read. Reload the page and vote again."
EMPTY_VOTE = "Choose a label, mark a pair or write a note before you save."
TOO_EARLY = "The run has not begun. Vote when the first frames are here."
OTHER_PAIRS = "A pair that was marked is not among those of this run. Mark it again."
BLIND = "given before the verdict was seen"
AGREES = "agree"
DIFFERS = "differ"
VOTED_AT = "%d %b %Y, %H:%M UTC"
