"""A branch of a stored run in a terminal: from the command's arguments to what is to be judged."""

from collections.abc import Sequence
from pathlib import Path

from vrthinker_core.branching.plan import BranchPlan, Changes, plan_branch
from vrthinker_core.errors import BadInput
from vrthinker_core.traces import check_trace_option, load
from vrthinker_core.types.settings import setting


def read_changes(
    frames: Sequence[int], no_tool: bool, window: str | None, prompt: str | None
) -> Changes:
    """What the options ask for. Raises BadInput."""
    try:
        chosen = setting("window").parse(window)
    except BadInput as bad:
        raise BadInput(f"--window: {bad}") from None
    return Changes(tuple(frames), no_tool, chosen, prompt)  # type: ignore[arg-type]


def read_plan(origin: Path, turn: int, changes: Changes, trace: Path | None) -> BranchPlan:
    """What is to be judged, once it may be kept as `trace` where that is named. Raises BadInput and TraceError."""
    plan = plan_branch(load(origin), turn, changes)
    if trace is not None:
        check_trace_option(trace)
        if trace.exists() and trace.samefile(origin):
            raise BadInput(
                f"{trace} is the run that the branch goes on from, and would be lost: name another file with --trace."
            )
    return plan
