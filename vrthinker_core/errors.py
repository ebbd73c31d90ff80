"""The error classes, and what turns foreign errors into them.

Each message is one sentence of cause and one of advice.
"""

from __future__ import annotations

import errno
import functools
import logging
import re
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from vrthinker_core.words import encodable, one_line

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


class VrThinkerError(Exception):
    """The base of every error raised on purpose. `str(error)` can be shown to a person."""


class BadInput(VrThinkerError):
    """A prompt, path, number or setting that cannot be used, and why."""


class VideoError(BadInput):
    """A file from which no frame can be decoded."""

    sides: tuple[int, ...] = ()  # Unreadable videos of the pair: 1, 2 or both; () if unknown


class DecoderDied(VideoError):
    """A decoding process that hung, crashed, or exceeded memory or time limits."""


class VideoUnavailable(VideoError):
    """A file that cannot be read now, but perhaps later. The machine fails or lacks something."""


class NoCopy(BadInput):
    """A video, perhaps readable for a judge, without a copy for browsers."""


class JudgeError(VrThinkerError):
    """A failure on the judge's side."""


class CheckpointError(JudgeError):
    """A checkpoint that is missing, damaged, unreadable or too large for memory."""


class ContextFull(JudgeError):
    """A conversation longer than the judge's context, even without old frames."""


class BackendFailed(JudgeError):
    """A judge that stopped while it was generating."""


class BackendRefused(BackendFailed):
    """A request that the judge cannot answer; a retry does not help."""


class RequestRefused(BackendRefused):
    """A request that the judge's server refuses; with fewer frames it may not."""


class ServerUnavailable(BackendRefused):
    """A judge's server that is unreachable, silent or overloaded after all retries."""


class TraceError(VrThinkerError):
    """A trace that cannot be read back or written."""


def fault_names(kind: type[VrThinkerError]) -> frozenset[str]:
    """Return the names of a class and its subclasses, as `Finished.fault` holds them."""
    return frozenset({kind.__name__}).union(*map(fault_names, kind.__subclasses__()))


_LASTING = (
    *(VrThinkerError, BadInput, VideoError, CheckpointError, ContextFull),
    *(BackendRefused, RequestRefused, TraceError, MemoryError),
)
# The last name is in traces of earlier versions
LASTING_FAULTS = frozenset((*(error.__name__ for error in _LASTING), "TooManyPictures"))
"""Names of the errors after which the same pair would fail again, at any later time."""


def is_retryable(error: Exception) -> bool:
    """Return whether the same request may succeed if retried at once."""
    if isinstance(error, VrThinkerError):
        return isinstance(error, BackendFailed) and not isinstance(error, BackendRefused)
    return not isinstance(error, MemoryError)


def out_of_files(error: BaseException | None) -> str:
    """Return a sentence about too many open files, "" for other errors."""
    if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
        return ""
    return (
        "Too many files are open: judge fewer pairs at a time (--concurrency), or raise the limit "
        "with `ulimit -n`."
    )


_PRIVATE = re.compile(
    r"""(['"])[^'"\n]*[/\\@][^'"\n]*\1|\S*[/\\@]\S*|\b(?:sk-|hf_|bearer )\S+""", re.IGNORECASE
)


def explain(what: str, error: BaseException) -> str:
    """Return a sentence with an unknown error's text; log its traceback."""
    logging.getLogger(__name__).error(what, exc_info=error)
    # Without paths, addresses and keys: the page shows the sentence to its visitors
    text = _PRIVATE.sub("…", str(getattr(error, "strerror", None) or error))
    return f"{one_line(f'{what}: {type(error).__name__}: {text}', 400).rstrip('.: ')}."


def judge_failure(error: Exception) -> Exception:
    """Return an unknown error of a judge's own code as `BackendFailed`."""
    if isinstance(error, VrThinkerError | MemoryError) or out_of_files(error):
        return error
    return BackendFailed(explain("The judge failed", error))


@contextmanager
def judge_errors() -> Iterator[None]:
    """Turn an unknown error of a judge's own code into `BackendFailed`."""
    try:
        yield
    except Exception as error:
        if (failure := judge_failure(error)) is error:
            raise
        raise failure from error


def describe(error: Exception | None) -> str:
    """Describe any error in a sentence without program details; "" for None."""
    if error is None or isinstance(error, VrThinkerError):
        return encodable(str(error or ""))
    if isinstance(error, MemoryError):
        return (
            "There is too little memory for this comparison. Use a smaller judge or shorter videos."
        )
    if sentence := out_of_files(error):
        return sentence
    logging.getLogger(__name__).error("The comparison stopped unexpectedly", exc_info=error)
    return (
        f"The comparison stopped unexpectedly ({type(error).__name__}). The turns so far are "
        "kept; compare again."
    )


@contextmanager
def os_errors(failed: str, hint: str = "") -> Iterator[None]:
    """Turn an `OSError` of the block into `BadInput`: `failed`, the cause, then the `hint`."""
    try:
        yield
    except OSError as error:
        told = out_of_files(error) or f"{failed}: {error.strerror or error}.{hint}"
        raise BadInput(told) from None


@contextmanager
def data_errors(failed: str, kind: type[VrThinkerError] = BadInput) -> Iterator[None]:
    """Turn a validation error of the block into one sentence."""
    from pydantic import ValidationError

    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        said = first["msg"].removeprefix("Value error, ")
        if first["type"] == "unexpected_keyword_argument":
            said = "there is no such setting"
        parts = failed, ".".join(map(str, first["loc"])), said[:1].lower() + said[1:]
        raise kind(encodable(f"{': '.join(filter(None, parts))}.")) from None
    except BadInput as error:  # From `Settings`, which pydantic lets through
        raise kind(f"{failed}: {error}") from None


def type_adapter(kind: type[T]) -> TypeAdapter[T]:
    """Return pydantic's adapter of a type. The first call does the slow import."""
    return _adapter(cast(Hashable, kind))  # mypy checks the hash of an instance, not of the type


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
