"""A borrowed GPU may be refused: what is said then."""

from __future__ import annotations

from collections.abc import Generator

import gradio as gr

from vrthinker_core.errors import BackendFailed
from vrthinker_core.types.events import Event
from vrthinker_core.ui.sessions.background_run import JobRunner, RunJob


def naming_gpu_errors(judging: JobRunner) -> JobRunner:
    """The same judging, in which a lender's refusal is one of our errors: a visitor must know why, and when to come back."""

    def events(job: RunJob) -> Generator[Event, None, None]:
        try:
            yield from judging(job)
        except gr.Error as refusal:
            raise BackendFailed(f"No GPU could be borrowed. {str(refusal.message).strip()}") from None

    return events
