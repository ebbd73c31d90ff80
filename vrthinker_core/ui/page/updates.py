"""What handlers return: new values of components, as Gradio takes them. A component that is left out stays as it is."""

from typing import Any

import gradio as gr

from vrthinker_core.ui.page.layout import PageComponents
from vrthinker_core.ui.view import words

Updates = dict[Any, Any]
"""Component to its new value."""


def no_updates() -> Updates:
    """Every component stays as it is. Not an empty dict, which Gradio takes for a value."""
    skipped: Updates = gr.skip()
    return skipped


def without_run(parts: PageComponents, line: str, ending: str = "") -> Updates:
    """No run is shown; `line` stands in the status, and `ending` in the trace."""
    return {
        parts.status: line,
        parts.trace: {"turns": [], "ending": ending},
        parts.transcript: {"passages": []},
        parts.gallery: [],
    }


def idle_buttons(parts: PageComponents) -> Updates:
    """Compare can be pressed, Stop cannot."""
    return {parts.compare_button: gr.update(visible=True), parts.stop_button: gr.update(visible=False)}


def refused_entry(parts: PageComponents) -> Updates:
    """The waiting room is full."""
    return {**idle_buttons(parts), parts.status: words.BUSY}
