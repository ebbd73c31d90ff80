"""The command `branch`: from its arguments to a `BranchPlan`."""

from collections.abc import Sequence
from pathlib import Path

from vrthinker_core.branch_plan import BranchPlan, Changes, plan_branch
from vrthinker_core.errors import BadInput
from vrthinker_core.traces import check_trace_option, load
from vrthinker_core.types.settings import setting


def read_changes(
    frames: Sequence[int], no_tool: bool, window: str | None, prompt: str | None
) -> Changes:
    """Return the changes that the options ask for; raises `BadInput`."""
    try:
        chosen = setting("window").parse(window)
    except BadInput as bad:
        raise BadInput(f"--window: {bad}") from None
    return Changes(tuple(frames), no_tool, chosen, prompt)  # type: ignore[arg-type]


def read_plan(origin: Path, turn: int, changes: Changes, trace: Path | None) -> BranchPlan:
    """Return the checked plan of a branch; raises `BadInput` and `TraceError`."""
    plan = plan_branch(load(origin), turn, changes)
    if trace is not None:
        check_trace_option(trace)
        if trace.exists() and trace.samefile(origin):
            raise BadInput(
                f"{trace} holds the run to branch from and would be lost: name another file with --trace."
            )
    return plan
