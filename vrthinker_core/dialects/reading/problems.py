"""Lists of named problems: the worst first, each kind once."""

from collections.abc import Sequence
from typing import Final

from vrthinker_core.types import Problem, ProblemKind

MINOR_PROBLEMS: Final = (
    ProblemKind.INVENTED,
    ProblemKind.IGNORED_CALL,
    ProblemKind.REPAIRED,
    ProblemKind.BAD_CONFIDENCE,
)
"""Problems that leave a reply usable."""


def by_severity(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return the first problem of each kind, the minor ones last."""
    found: dict[ProblemKind, Problem] = {}
    for problem in sorted(problems, key=lambda problem: problem.kind in MINOR_PROBLEMS):
        found.setdefault(problem.kind, problem)
    return tuple(found.values())


def reason(problems: Sequence[Problem], otherwise: str) -> str:
    """Return the detail of the first non-minor problem, else `otherwise`."""
    return next(
        (problem.detail for problem in problems if problem.kind not in MINOR_PROBLEMS), otherwise
    )


def retry_text(problems: Sequence[Problem], forms: str) -> str:
    """Return the message after a reply without answer or call.

    The judge reads this text. `forms` are the accepted ends of a reply.
    """
    why = reason(problems, "A recommended answer does not end the comparison.")
    return (
        f"Your last reply could not be used. {why} Reply again and end with {forms}, where each "
        "label is 0, 1 or 2."
    )
