"""Protocols and complete settings, made from a person's choices."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast, get_args

from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import concat, paired
from vrthinker_core.protocols.base import PromptProtocol
from vrthinker_core.types import ProtocolName, Settings
from vrthinker_core.types.events import Started
from vrthinker_core.types.frames import FramePlan
from vrthinker_core.types.settings import setting


def make_protocol(settings: Settings, protocol: ProtocolName) -> PromptProtocol:
    """Return the protocol; raise `BadInput` for numbers of frames that do not fit it."""
    most = paired.MAX_PER_CALL if protocol == "paired" else concat.MAX_PER_CALL
    setting("frames_per_call").check(settings.frames_per_call, most)
    per_call = settings.frames_per_call or most
    opening, total = settings.opening_frames, settings.total
    if protocol == "paired":
        if opening != concat.OPENING_COUNT:
            raise BadInput(
                f"{opening} first frames do not fit the protocol paired, which opens with "
                f"{concat.OPENING_COUNT}: choose concat, or leave opening_frames out."
            )
        return paired.Paired(settings.preset, per_call, settings.fit)
    if opening % 4 or opening > total:
        raise BadInput(
            f"{opening} first frames do not fit into a list of {total}: choose a multiple of 4, and "
            "a total of at least as many."
        )
    return concat.Concat(settings.preset, per_call, total, settings.opening, opening)


def for_data_set(settings: Settings, data_set: str) -> Settings:
    """Return settings whose wording `paper` explains the dimensions as this data set does."""
    preset: Any = f"{settings.preset}-{data_set}"
    return replace(settings, preset=preset) if preset in concat.DIMENSIONS else settings


def chosen_protocol(settings: Settings, trained: Sequence[ProtocolName]) -> ProtocolName:
    """Return the chosen protocol, else the first in `trained`, else `paired`."""
    return next(iter(trained), "paired") if settings.protocol == "auto" else settings.protocol


def protocol_of(started: Started) -> PromptProtocol | None:
    """Return the protocol of a run; None if it or its settings are unknown."""
    if started.dialect not in get_args(ProtocolName):
        return None
    with suppress(BadInput):
        return make_protocol(started.settings, cast(ProtocolName, started.dialect))
    return None


def redirects(
    forced: Mapping[ProtocolName, tuple[str, str]],
) -> dict[tuple[str, str], tuple[str, str]]:
    """Return, for each protocol's redirect in `Sampling`, the checkpoint's own one."""
    return {make_protocol(Settings(), protocol).redirect: own for protocol, own in forced.items()}


def frame_plans(
    settings: Settings, protocols: Sequence[ProtocolName]
) -> dict[ProtocolName, FramePlan]:
    """Return the frame plans of the protocols, in their order."""
    return {protocol: make_protocol(settings, protocol).frame_plan for protocol in protocols}


def with_defaults(settings: Settings, protocol: PromptProtocol) -> Settings:
    """Return `settings` with the protocol's own value for everything not chosen."""
    window = protocol.window if settings.window is None else settings.window
    return replace(
        settings,
        protocol=protocol.name,
        window="all" if window is None else window,
        max_turns=settings.max_turns or protocol.max_turns,
        frames_per_call=protocol.frames_per_call,
    )
