"""What the page says of the runs of a folder."""

from vrthinker_core.types import Dimension
from vrthinker_core.types.comparison import SUB_SCORES
from vrthinker_core.types.wording import DIMENSION_NAMES, NOT_SWAP_TESTED

TAB = "Evaluation"
NO_FOLDER = "There is no folder {}: name the --out folder of an evaluation, or a folder of traces."
EMPTY = "{} holds no results.jsonl and no trace yet: name the --out folder of an evaluation, or a folder of traces."
NO_RESULT_YET = "No pair has been judged yet. Refresh when the evaluation has gone on."
UNREADABLE = "{} cannot be read: {}."
NO_RESULTS = (
    "{} holds no result of an evaluation: name the --out folder of `evaluate`, or remove the file."
)
LABELS_HIDDEN = "“Vote first” is on, so labels are hidden here."
RUN_HIDDEN = "“Vote first” is on, so labels and the judge's words are hidden here."
BROKEN_LINES = "{} of {} cannot be read: each stands as a row with its reason."
NO_SUCH_ROW = "This row is not in the list any more. Choose another one."
NO_TRACE = "This pair has no trace: it was never judged."
TRACE_GONE = "The trace of this row is not in the folder any more."
LEFT_FOLDER = (
    "The trace of this row lies outside the folder of the evaluation, so it is not opened."
)
UNKNOWN_FILTER = "There is no filter {}. There are: {}."
UNKNOWN_SORT = "There is no sorting {}. There are: {}."
NO_NUMBER = "A page is a number from 1."

DIMENSIONS = [(each.value, DIMENSION_NAMES[each]) for each in (Dimension.OA, *SUB_SCORES)]
"""In the order of the columns: the whole first."""

FILTERS = {
    "overall": (
        "Disagrees overall",
        "The judge gave another overall label than people, or than the data set.",
    ),
    "any": (
        "Disagrees anywhere",
        "The judge gave another label than people, or than the data set, in at least one dimension.",
    ),
    "failed": ("Failed", "No verdict: the pair could not be judged, or the run ended without one."),
    "unsure": (
        "Low confidence",
        "The judge said a confidence of 1 or 2, or its overall label has a probability below 0.6.",
    ),
    "flips": (
        "Flips when swapped",
        "With the sides swapped the judge prefers the other video, in at least one dimension.",
    ),
}
SORTS = {
    "row": "By row",
    "unsure": "Least confident first",
    "disagreement": "Largest disagreement first",
}
LIST = {
    "filters": "Show only",
    "search": "Search the prompts",
    "sort": "Sort by",
    "refresh": "Refresh",
    "reading": "Reading the folder. Rows appear as they are read.",
    "none": "No row matches. Take away a filter, or search for something else.",
    "noPrompt": "No prompt",
    "judge": "Judge",
    "people": "People",
    "data_set": "Data set",
    "first": "First",
    "previous": "Previous",
    "next": "Next",
    "last": "Last",
    "previousRow": "Previous row",
    "nextRow": "Next row",
    "read": "read at {}",
    "unchecked": NOT_SWAP_TESTED,
    "flips": "flips",
    "pick": "Pick row {} for side by side",
    "picked": "{} of at most {} rows picked",
    "mostPicked": "{} rows are picked, which is the most.",
    "sideBySide": "Side by side",
    "allOfPrompt": "All {} of this prompt",
    "someOfPrompt": "{} of {} of this prompt",
    "clear": "Clear",
    "close": "Close",
    "alone": "Open alone",
    "loading": "Reading the trace.",
    "noLarger": "Thumbnail: open this row alone to see a larger picture.",
    "right": "right",
    "wrong": "wrong",
    "unreachable": "The server did not answer. Try again.",
    "dimensions": DIMENSIONS,
    "kinds": [(name, *said) for name, said in FILTERS.items()],
    "sorts": list(SORTS.items()),
}
"""Sentences of the list, and what can be chosen there."""
