"""The record of a kept run: the little that the list of runs shows of it, whose it is, and how long it is kept."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from vrthinker_core.storage import type_adapter
from vrthinker_core.types import Preference
from vrthinker_core.types.events import StopReason, Trace
from vrthinker_core.types.order import OrderEffect, order_of
from vrthinker_core.types.wording import branch_name

MAX_RECORD_BYTES = 64 * 2**10
MAX_TEXT = 400  # characters of the prompt, of the judge's name, and of the branch's

NAME = re.compile(r"[0-9a-f]{24}")  # of a run; it cannot be guessed
VIDEO = re.compile(
    r"[0-9a-f]{64}(\.[a-z0-9]{1,8})?"
)  # the SHA-256 of its content and the ending of its name

ShortText = Annotated[str, Field(max_length=MAX_TEXT)]
Moment = Annotated[float, Field(ge=0, allow_inf_nan=False)]  # Seconds since 1970
VideoName = Annotated[str, Field(pattern=f"^{VIDEO.pattern}$")]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A kept run without its trace."""

    owner: Annotated[
        str, Field(pattern=r"^([0-9a-f]{64})?$")
    ]  # of the visitor, as `visitors.owner_of` gives it; "" for nobody's
    prompt: ShortText
    judge: ShortText
    begun: Moment
    until: Moment  # when it is dropped
    ending: StopReason | None = None  # None for a run that was cut off, or has not ended
    judged: bool = False  # it gave a verdict
    overall: Preference | None = None  # the verdict's label for the whole
    outside_scope: bool = False  # the judge cannot judge such videos
    order: OrderEffect | None = (
        None  # what the order does to the overall label; None if it was not checked
    )
    videos: Annotated[
        tuple[VideoName, ...], Field(max_length=2)
    ] = ()  # of the kept files that it compared
    origin: Annotated[str, Field(pattern=f"^({NAME.pattern})?$")] = (
        ""  # of a link: the run that it shows
    )
    voted: bool = False  # there is a vote on it
    branch: ShortText = ""  # what a branch is called; "" for a run that is none


def record_of(owner: str, trace: Trace, begun: float, until: float, origin: str = "") -> RunRecord:
    """The record of that run."""
    started, finished = trace.started, trace.finished
    verdict, ending = (finished.verdict, finished.stop) if finished else (None, None)
    judged, overall = verdict is not None, verdict.OA if verdict else None
    check = order_of(trace.runs)
    prompt, judge = started.prompt[:MAX_TEXT], started.judge[:MAX_TEXT]
    voted, branch = trace.vote is not None, branch_name(started)[:MAX_TEXT]
    return RunRecord(
        owner,
        prompt,
        judge,
        begun,
        until,
        ending,
        judged,
        overall,
        bool(finished and finished.outside_scope),
        check.overall if check else None,
        origin=origin,
        voted=voted,
        branch=branch,
    )


def record_json(record: RunRecord) -> bytes:
    """The record as it is written."""
    return type_adapter(RunRecord).dump_json(record)


def read_record(path: Path) -> RunRecord | None:
    """The record in that file; None where none can be read or what it says cannot be."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_RECORD_BYTES + 1)
        record = type_adapter(RunRecord).validate_json(data)
    except (OSError, ValueError):  # Of pydantic, too
        return None
    return record if len(data) <= MAX_RECORD_BYTES else None
