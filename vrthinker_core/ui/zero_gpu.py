"""ZeroGPU: a Hugging Face Space lends a GPU for one run, or refuses."""

import math
from collections.abc import Callable, Generator

import gradio as gr

from vrthinker_core.errors import BackendFailed
from vrthinker_core.protocols.paired import Paired
from vrthinker_core.types.events import JudgeEvent
from vrthinker_core.ui.background_run import JobRunner, RunJob

MAX_GPU_SECONDS = 75  # ZeroGPU refuses a run that needs more than a visitor's remaining quota


def gpu_seconds(job: RunJob) -> int:
    """Return seconds for which a job asks for the GPU.

    Ten to start, then each turn 1 s to prefill and 25 tokens a second to decode. Both orders take
    twice as many turns.
    """
    settings = job.settings
    turns = min(max(settings.max_turns or Paired.max_turns, 1), MAX_GPU_SECONDS)
    orders = 2 if settings.swap == "on" else 1
    seconds = 10 + orders * turns * (1 + min(settings.max_new_tokens, 300) / 25)
    return min(MAX_GPU_SECONDS, math.ceil(seconds))


def naming_gpu_errors(run_job: JobRunner, open_judge: Callable[[str], object]) -> JobRunner:
    """Return the runner with ZeroGPU's refusal as BackendFailed, which says why and until when.

    `open_judge` raises if the job's judge cannot be had: no GPU is borrowed for that.
    """

    def events(job: RunJob) -> Generator[JudgeEvent, None, None]:
        open_judge(job.judge)
        what = "No GPU could be borrowed."
        try:
            for event in run_job(job):
                what = "The GPU was taken back before the judge had answered."
                yield event
        except gr.Error as refusal:
            raise BackendFailed(f"{what} {str(refusal.message).strip()}") from None

    return events
