"""ZeroGPU, where a Hugging Face Space lends a GPU for the seconds of one run and may refuse to."""

import math
from collections.abc import Callable, Generator

import gradio as gr

from vrthinker_core.errors import BackendFailed
from vrthinker_core.protocols.paired import Paired
from vrthinker_core.types.events import JudgeEvent
from vrthinker_core.ui.background_run import JobRunner, RunJob

DEFAULT_TURNS = Paired.max_turns  # replies of a run in which nobody chose their number
MAX_GPU_SECONDS = 75  # the most that a job asks for: ZeroGPU refuses a run that needs more than a visitor's remaining quota


def gpu_seconds(job: RunJob) -> int:
    """Seconds for which a job asks for the GPU: ten to start, then each turn 1 s to prefill and 25 tokens a second to decode.

    Both orders take twice as many turns.
    """
    turns = min(max(job.settings.max_turns or DEFAULT_TURNS, 1), MAX_GPU_SECONDS) * (
        2 if job.settings.swap == "on" else 1
    )
    return min(
        MAX_GPU_SECONDS, math.ceil(10 + turns * (1 + min(job.settings.max_new_tokens, 300) / 25))
    )


def naming_gpu_errors(run_job: JobRunner, open_judge: Callable[[str], object]) -> JobRunner:
    """The same runner, with ZeroGPU's refusal raised as BackendFailed; its message says why, and when to try again.

    `open_judge` raises where the job's judge cannot be had: no GPU is borrowed for that.
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
