"""What the page's events answer with where there is no run to show: nothing new, nothing at all, or a sentence."""

from __future__ import annotations

from typing import Any

import gradio as gr

from vrthinker_core.ui import words


def same(count: int) -> tuple[Any, ...]:
    """That many parts stay as they are."""
    return (gr.skip(),) * count


def nothing(line: str, ending: str = "") -> tuple[Any, ...]:
    """The parts that a run writes to (status, trace, transcript, gallery), without a run."""
    return line, {"turns": [], "ending": ending}, {"passages": []}, []


def idle() -> tuple[Any, ...]:
    """Compare can be pressed, Stop cannot."""
    return gr.update(visible=True), gr.update(visible=False)


def turned_away() -> tuple[Any, ...]:
    """No place in the waiting room."""
    return *idle(), words.BUSY


def refused(sentence: str) -> tuple[Any, ...]:
    """A saved run that cannot be shown: what stood there before stays, and the reason is said."""
    return *same(3), sentence, *same(3), *same(2)
