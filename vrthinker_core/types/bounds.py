"""Bounds that pydantic checks, because a trace may come from a stranger."""

from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from annotated_types import Interval

T = TypeVar("T")

MAX_NUMBER = 2**53 - 1  # JavaScript and JSON hold it exactly
MAX_TURNS = 64

Natural = Annotated[int, Interval(ge=0, le=MAX_NUMBER)]  # For counts and indices
Amount = Annotated[float, Interval(ge=0, le=MAX_NUMBER)]  # Neither NaN nor infinite


@dataclass(frozen=True)
class AtMost:
    """A limit on the length of a list.

    Validation stops at the first wrong item: a sentence about each item costs a kilobyte.
    """

    items: int

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return handler(source) | {"max_length": self.items, "fail_fast": True}


Few = Annotated[tuple[T, ...], AtMost(1024)]
PerFrame = Annotated[tuple[T, ...], AtMost(256)]
PerToken = Annotated[tuple[T, ...], AtMost(65_536)]
