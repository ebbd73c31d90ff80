"""Everything that can go wrong, named by the border it crossed.

Each message is one sentence of cause and, where there is one, one of what to do. It never holds a traceback.
"""

import errno

from vrthinker_core.text import encodable


class VrThinkerError(Exception):
    """Base of every error this package raises on purpose; `str(error)` is fit to be shown to a person."""


class BadInput(VrThinkerError):
    """Something a person gave (a prompt, a path, a number, a setting) cannot be used: the message says what and why."""


class VideoError(BadInput):
    """A file from which no frame can be taken."""

    sides: tuple[
        int, ...
    ] = ()  # Which videos of the pair cannot be read: 1, 2 or both; () if nobody said


class DecoderDied(VideoError):
    """The decoding process hung, crashed, or passed its limits on memory, processor or wall time."""


class VideoUnavailable(VideoError):
    """A file that cannot be opened or read now, and may be later: the machine or its disk is short of something, or fails."""


class NoCopy(BadInput):
    """A video that a judge may well be able to read, but of which the browser gets no copy that it plays."""


class JudgeError(VrThinkerError):
    """The judge's side failed."""


class CheckpointError(JudgeError):
    """A checkpoint cannot be opened, is missing or damaged, or does not fit into memory: it is never used."""


class ContextFull(JudgeError):
    """The conversation is longer than the judge's context, even after old frames left."""


class BackendFailed(JudgeError):
    """The judge stopped while it was generating."""


class BackendRefused(BackendFailed):
    """The judge cannot answer this request, and could not if it were asked again."""


class TooManyPictures(BackendRefused):
    """The server of a judge takes fewer pictures in one prompt than the conversation shows."""


class ServerUnavailable(BackendRefused):
    """The server of a judge cannot be reached, stays silent or is overloaded, although it was asked for as long as is worth it."""


class TraceError(VrThinkerError):
    """A trace cannot be read back or written."""


_LASTING = (
    VrThinkerError,
    BadInput,
    VideoError,
    CheckpointError,
    ContextFull,
    BackendRefused,
    TooManyPictures,
    TraceError,
    MemoryError,
)
LASTING_FAULTS = frozenset(error.__name__ for error in _LASTING)
"""Names of the errors with which the same pair would fail again, however much later it is judged."""


def is_retryable(error: Exception) -> bool:
    """The same request may succeed when a judge that failed with this error is asked again at once."""
    if isinstance(error, VrThinkerError):
        return isinstance(error, BackendFailed) and not isinstance(error, BackendRefused)
    return not isinstance(error, MemoryError)


def out_of_files(error: BaseException | None) -> str:
    """One sentence where an error says that this process, or the whole machine, has too many files open; "" for any other."""
    if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
        return ""
    return "Too many files are open: judge fewer pairs at a time (--concurrency), or raise the limit with `ulimit -n`."


def describe(error: Exception | None) -> str:
    """One sentence for a person about any error, whoever raised it; "" for none. It never holds a detail of the program."""
    if error is None or isinstance(error, VrThinkerError):
        return encodable(str(error or ""))
    if isinstance(error, MemoryError):
        return (
            "There is too little memory for this comparison. Use a smaller judge or shorter videos."
        )
    if sentence := out_of_files(error):
        return sentence
    return f"The comparison stopped unexpectedly ({type(error).__name__}). What had happened before is kept; compare again."
