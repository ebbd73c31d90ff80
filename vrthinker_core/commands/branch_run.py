"""The command `branch`: from its arguments to a `BranchPlan`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vrthinker_core.branch_plan import BranchPlan, Changes, plan_branch
from vrthinker_core.errors import BadInput
from vrthinker_core.traces import check_trace_option, load
from vrthinker_core.types.settings import setting


def read_plan(
    origin: Path,
    turn: int,
    frames: Sequence[int],
    no_tool: bool,
    window: str | None,
    prompt: str | None,
    trace: Path | None,
) -> BranchPlan:
    """Return the checked plan of a branch; raises `BadInput` and `TraceError`."""
    try:
        chosen: Any = setting("window").parse(window)
    except BadInput as bad:
        raise BadInput(f"--window: {bad}") from None
    plan = plan_branch(load(origin), turn, Changes(tuple(frames), no_tool, chosen, prompt))
    if trace is not None:
        check_trace_option(trace)
        if trace.exists() and trace.samefile(origin):
            raise BadInput(
                f"{trace} holds the run to branch from and would be lost: name another file with --trace."
            )
    return plan
