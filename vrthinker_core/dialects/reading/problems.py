"""Lists of named problems: in order of weight, each kind once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from vrthinker_core.types import Problem, Trouble

REMARKS: Final = frozenset({Trouble.INVENTED, Trouble.IGNORED_CALL, Trouble.REPAIRED, Trouble.BAD_CONFIDENCE})
"""Problems that do not make a reply unusable."""


def once(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The first problem of each kind, in order."""
    found: dict[Trouble, Problem] = {}
    for problem in problems:
        found.setdefault(problem.kind, problem)
    return tuple(found.values())


def weightiest_first(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """The same problems, each kind once, with the remarks at the end."""
    return once(sorted(problems, key=lambda problem: problem.kind in REMARKS))


def reason(problems: Sequence[Problem], otherwise: str) -> str:
    """The sentence that says why a reply was not usable; `otherwise` where no problem says it."""
    return next((problem.detail for problem in problems if problem.kind not in REMARKS), otherwise)
