"""Pydantic adapters that read and write types as JSON, made once each."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


def type_adapter(kind: type[T]) -> TypeAdapter[T]:
    """Return pydantic's adapter of a type.

    Pydantic is imported on the first call: the import is slow, and many commands need no adapter.
    """
    return _adapter(cast(Hashable, kind))  # mypy checks the hash of an instance, not of the type


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
