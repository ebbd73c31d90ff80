"""ZeroGPU, where a Hugging Face Space lends a GPU for the seconds of one run and may refuse to."""

from __future__ import annotations

from collections.abc import Generator

import gradio as gr

from vrthinker_core.errors import BackendFailed
from vrthinker_core.types.events import Event
from vrthinker_core.ui.sessions.background_run import JobRunner, RunJob


def naming_gpu_errors(run_job: JobRunner) -> JobRunner:
    """The same runner, with ZeroGPU's refusal raised as BackendFailed; its message says why, and when to try again."""

    def events(job: RunJob) -> Generator[Event, None, None]:
        try:
            yield from run_job(job)
        except gr.Error as refusal:
            raise BackendFailed(f"No GPU could be borrowed. {str(refusal.message).strip()}") from None

    return events
