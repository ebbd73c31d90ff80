"""A branch of a stored run in a terminal: from the command's arguments to events."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from vrthinker_core.backends import open_backend
from vrthinker_core.branching.plan import Changes, plan_branch
from vrthinker_core.errors import BadInput
from vrthinker_core.judge import judge_branch
from vrthinker_core.traces import check_trace_option, load
from vrthinker_core.types import VideoPair
from vrthinker_core.types.events import JudgeEvent
from vrthinker_core.types.settings import setting


def read_changes(frames: Sequence[int], no_tool: bool, window: str | None, prompt: str | None) -> Changes:
    """What the options ask for. Raises BadInput."""
    try:
        chosen = setting("window").parse(window)
    except BadInput as bad:
        raise BadInput(f"--window: {bad}") from None
    return Changes(tuple(frames), no_tool, chosen, prompt)  # type: ignore[arg-type]


def branch_events(
    origin: Path, turn: int, changes: Changes, videos: tuple[Path, Path], judge: str | None, trace: Path | None
) -> Iterator[JudgeEvent]:
    """Judge the branch, and keep it as `trace` where that is named. Raises BadInput, TraceError and what opening a judge raises."""
    plan = plan_branch(load(origin), turn, changes)
    if trace is not None:
        check_trace_option(trace)
        if trace.exists() and trace.samefile(origin):
            raise BadInput(f"{trace} is the run that the branch goes on from, and would be lost: name another file with --trace.")
    return judge_branch(plan, VideoPair(plan.prompt, *videos), open_backend(judge), trace=trace)
