"""Which judges a page offers, and what visitors know them by: never by a path of the server."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path

from vrthinker_core.backends import NANO_NAME, OpenedBackend, default_choice, open_backend
from vrthinker_core.backends.local.checkpoint.checkpoint_files import display_name
from vrthinker_core.errors import VrThinkerError
from vrthinker_core.ui.opening import OpenJudge


def offered(chosen: Sequence[str]) -> dict[str, OpenJudge]:
    """The judges that were chosen (as `open_backend` takes them), by name and in order, and how each is opened.

    Without a choice: the best judge this machine can run and, where that is another one, the built-in judge.
    """
    if chosen:
        return {name: _opener(choice, name) for choice, name in zip(chosen, _distinct(map(_name, chosen)), strict=True)}
    best = _name(default_choice())
    return {best: lambda: open_backend(None)} | ({} if best == NANO_NAME else {NANO_NAME: _opener("nano", NANO_NAME)})


def _opener(choice: str, name: str) -> OpenJudge:
    def open_judge() -> OpenedBackend:
        try:
            return open_backend(choice, name)
        except VrThinkerError as error:
            logging.getLogger(__name__).warning("The judge %s cannot be opened. %s", choice, error)
            raise type(error)(_without_place(str(error), choice, name)) from error

    return open_judge


def _name(choice: str) -> str:
    kind, _, rest = choice.partition(":")
    if choice == "nano":
        return NANO_NAME
    name = display_name(rest) if kind == "hf" else Path(rest).stem if kind == "scripted" else Path(choice).name
    return name or "judge"


def _distinct(names: Iterable[str]) -> list[str]:
    """The same names, with a number where one has come before."""
    found: list[str] = []
    for name in names:
        numbered = (f"{name} {number}" for number in count(2))
        found.append(name if name not in found else next(other for other in numbered if other not in found))
    return found


def _without_place(sentence: str, choice: str, name: str) -> str:
    """The same sentence, which says where the judge lies, with its name in that place."""
    source = choice.partition(":")[2] or choice
    path = Path(source).expanduser()
    for place in (str(path.absolute()), str(path), source):
        sentence = sentence.replace(place, name) if os.sep in place else sentence
    return sentence
