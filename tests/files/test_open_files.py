"""How many files this process may have open, and how many pairs in hand there is room for."""

from __future__ import annotations

import errno
import resource

import pytest

from tests.support.file_limit import open_file_limit
from vrthinker_core.errors import BadInput, describe
from vrthinker_core.storage import WANTED, allow_open_files, allow_pairs


def test_the_limit_is_raised_as_far_as_this_process_may() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    with open_file_limit(256):
        assert allow_open_files() == most
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, hard)
        assert allow_open_files() == most


def test_more_pairs_than_there_may_be_files_for_are_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    allow_pairs(20)
    with pytest.raises(BadInput) as refused:
        allow_pairs(64)
    assert str(refused.value) == (
        "A concurrency of 64 needs more than the 256 files that this process may have open: "
        "give a number up to 20, or raise the limit with `ulimit -n`."
    )


def test_one_pair_is_never_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (32, 32))
    allow_pairs(1)


def test_a_limit_that_cannot_be_raised_is_the_one_that_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert allow_open_files() == 256


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_too_many_open_files_are_named_with_what_to_do(code: int) -> None:
    assert describe(OSError(code, "Too many open files")) == (
        "Too many files are open: judge fewer pairs at a time (--concurrency), or raise the limit with `ulimit -n`."
    )
