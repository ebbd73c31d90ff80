"""VR-Thinker: compare two generated videos, and see why.

A public name is imported when it is first used (PEP 562). A process that only decodes a clip loads
neither judge nor page nor models.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from vrthinker_core.__about__ import __version__ as __version__

if TYPE_CHECKING:
    from vrthinker_core.backends import (
        Backend as Backend,
        Conversation as Conversation,
        ScriptedBackend as ScriptedBackend,
        open_backend as open_backend,
    )
    from vrthinker_core.branch_plan import (
        BranchPlan as BranchPlan,
        Changes as Changes,
        plan_branch as plan_branch,
    )
    from vrthinker_core.errors import (
        BadInput as BadInput,
        CheckpointError as CheckpointError,
        JudgeError as JudgeError,
        TraceError as TraceError,
        VideoError as VideoError,
        VrThinkerError as VrThinkerError,
    )
    from vrthinker_core.evaluation.job import evaluate as evaluate
    from vrthinker_core.evaluation.reward import (
        ComparedVideos as ComparedVideos,
        Reward as Reward,
        areward as areward,
        areward_many as areward_many,
        reward as reward,
        reward_many as reward_many,
    )
    from vrthinker_core.runner import (
        compare as compare,
        judge as judge,
        judge_branch as judge_branch,
        judge_many as judge_many,
    )
    from vrthinker_core.traces import load_trace as load_trace
    from vrthinker_core.training.export import export as export
    from vrthinker_core.types import (
        Dimension as Dimension,
        Frame as Frame,
        Preference as Preference,
        Run as Run,
        Settings as Settings,
        Side as Side,
        Verdict as Verdict,
        VideoPair as VideoPair,
        Vote as Vote,
    )
    from vrthinker_core.types.events import (
        Branch as Branch,
        Event as Event,
        Finished as Finished,
        FramesShown as FramesShown,
        JudgeEvent as JudgeEvent,
        Opening as Opening,
        Started as Started,
        StopReason as StopReason,
        Swapped as Swapped,
        TextArrived as TextArrived,
        Trace as Trace,
        Turn as Turn,
        TurnEnded as TurnEnded,
        Voted as Voted,
    )
    from vrthinker_core.types.messages import (
        Completion as Completion,
        Message as Message,
        Retrying as Retrying,
        Sampling as Sampling,
    )
    from vrthinker_core.types.order import (
        OrderCheck as OrderCheck,
        OrderEffect as OrderEffect,
        check_order as check_order,
    )
    from vrthinker_core.video.measure import (
        MeasuredFact as MeasuredFact,
        MeasuredVideo as MeasuredVideo,
        Measurement as Measurement,
        measure as measure,
    )

_PUBLIC = {
    "backends": "Backend Conversation ScriptedBackend open_backend",
    "branch_plan": "BranchPlan Changes plan_branch",
    "errors": "BadInput CheckpointError JudgeError TraceError VideoError VrThinkerError",
    "evaluation.job": "evaluate",
    "evaluation.reward": "ComparedVideos Reward areward areward_many reward reward_many",
    "runner": "compare judge judge_branch judge_many",
    "traces": "load_trace",
    "training.export": "export",
    "types": "Dimension Frame Preference Run Settings Side Verdict VideoPair Vote",
    "types.events": "Branch Event Finished FramesShown JudgeEvent Opening Started "
    "StopReason Swapped TextArrived Trace Turn TurnEnded Voted",
    "types.messages": "Completion Message Retrying Sampling",
    "types.order": "OrderCheck OrderEffect check_order",
    "video.measure": "MeasuredFact MeasuredVideo Measurement measure",
}
"""The public names of each module."""

_MODULES = {name: module for module, names in _PUBLIC.items() for name in names.split()}

if not TYPE_CHECKING:  # Else a type checker believes that every name exists
    __all__ = sorted(_MODULES)

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
