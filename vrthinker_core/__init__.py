"""VR-Thinker: compare two generated videos, and see why.

A public name is imported when it is first used (PEP 562). A process that only decodes a clip loads
neither judge nor page nor models.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from vrthinker_core.__about__ import __version__ as __version__

if TYPE_CHECKING:
    from vrthinker_core.backends import Backend, Conversation, ScriptedBackend, open_backend
    from vrthinker_core.batch import judge_many
    from vrthinker_core.branch_plan import BranchPlan, Changes, plan_branch
    from vrthinker_core.errors import (
        BadInput,
        CheckpointError,
        JudgeError,
        TraceError,
        VideoError,
        VrThinkerError,
    )
    from vrthinker_core.evaluation.job import evaluate
    from vrthinker_core.evaluation.reward import (
        ComparedVideos,
        Reward,
        areward,
        areward_many,
        reward,
        reward_many,
    )
    from vrthinker_core.judge import compare, judge, judge_branch
    from vrthinker_core.traces import load as load_trace
    from vrthinker_core.training.trace_folder import export
    from vrthinker_core.types import (
        Dimension,
        Frame,
        Preference,
        Run,
        Settings,
        Side,
        Verdict,
        VideoPair,
        Vote,
    )
    from vrthinker_core.types.events import (
        Branch,
        Event,
        Finished,
        FramesShown,
        JudgeEvent,
        Opening,
        Started,
        StopReason,
        Swapped,
        TextArrived,
        Trace,
        Turn,
        TurnEnded,
        Voted,
    )
    from vrthinker_core.types.messages import Completion, Message, Sampling
    from vrthinker_core.types.order import OrderCheck, OrderEffect, check_order

__all__ = [
    "Backend",
    "BadInput",
    "Branch",
    "BranchPlan",
    "Changes",
    "CheckpointError",
    "ComparedVideos",
    "Completion",
    "Conversation",
    "Dimension",
    "Event",
    "Finished",
    "Frame",
    "FramesShown",
    "JudgeError",
    "JudgeEvent",
    "Message",
    "Opening",
    "OrderCheck",
    "OrderEffect",
    "Preference",
    "Reward",
    "Run",
    "Sampling",
    "ScriptedBackend",
    "Settings",
    "Side",
    "Started",
    "StopReason",
    "Swapped",
    "TextArrived",
    "Trace",
    "TraceError",
    "Turn",
    "TurnEnded",
    "Verdict",
    "VideoError",
    "VideoPair",
    "Vote",
    "Voted",
    "VrThinkerError",
    "areward",
    "areward_many",
    "check_order",
    "compare",
    "evaluate",
    "export",
    "judge",
    "judge_branch",
    "judge_many",
    "load_trace",
    "open_backend",
    "plan_branch",
    "reward",
    "reward_many",
]

_MODULES = (
    "errors",
    "types",
    "types.messages",
    "types.events",
    "types.order",
    "backends",
    "branch_plan",
    "traces",
    "judge",
    "batch",
    "evaluation.reward",
)
"""The modules of the public names. Each module imports those before it anyway, so a search in this
order loads nothing more."""

_OWN_MODULES = {"evaluate": "evaluation.job", "export": "training.trace_folder"}

_OWN_NAMES = {"load_trace": "load"}  # Public name: name in its module


class _Package(ModuleType):
    """A module whose `judge` stays the function when that module loads."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name == "judge" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

if not TYPE_CHECKING:  # Else a type checker believes that every name exists

    def __getattr__(name: str) -> object:
        modules = (_OWN_MODULES[name],) if name in _OWN_MODULES else _MODULES
        for module in modules if name in __all__ else ():
            if hasattr(
                found := import_module(f"{__name__}.{module}"), own := _OWN_NAMES.get(name, name)
            ):
                globals()[name] = value = getattr(found, own)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
