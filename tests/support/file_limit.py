"""Limits on files, in the place of a full disk or of too many open files: the system itself refuses to go on."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def file_limit(size: int) -> Iterator[None]:
    """No file of this process may become larger than `size` bytes."""
    with _limit(resource.RLIMIT_FSIZE, size):
        yield


@contextmanager
def open_file_limit(number: int | None = None) -> Iterator[None]:
    """This process may have so many files open, as far as it does not raise the limit itself; without a number not one more."""
    os.close(first_free := os.dup(0))
    with _limit(resource.RLIMIT_NOFILE, number or first_free):
        yield


@contextmanager
def _limit(what: int, most: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (soft, hard))
