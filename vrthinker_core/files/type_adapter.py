"""What reads and writes the values of a type as JSON, made once for each type."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


def type_adapter(kind: type[T]) -> TypeAdapter[T]:
    """Pydantic's adapter of that type. It is loaded here and not before: it takes a while, and many commands need none."""
    return _adapter(cast(Hashable, kind))  # mypy looks for the hash of a value of that type


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
