"""A rollout as an ordinary trace, with its pictures, and a trace as the rollout that it was."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from vrthinker_core.protocols import Dialect
from vrthinker_core.text import encodable
from vrthinker_core.training.rollouts import LabelledPair, Rollout, clips_of
from vrthinker_core.training.rows.conversation import run_dialect, sent_prompts
from vrthinker_core.training.rows.teaching import NotForTraining
from vrthinker_core.types import Run, StopReason, Trace, Turn
from vrthinker_core.types.messages import Message
from vrthinker_core.video.thumbnails import make_thumbnail


@dataclass(frozen=True, slots=True)
class StoredRollout:
    """A rollout, and how it is had once more: the frames of every one would fit into no memory."""

    rollout: Rollout
    read_again: Callable[[], Rollout] = field(repr=False, compare=False)

    @classmethod
    def read(cls, read: Callable[[], Rollout]) -> "StoredRollout":
        """What `read` gives, now and whenever it is called again."""
        return cls(read(), read)


def is_of(run: Run, pair: LabelledPair) -> bool:
    """The run has the prompt of the pair and, as far as both say what they are, its videos. Raises VideoError."""
    if (
        encodable(run.started.prompt).strip() != encodable(pair.prompt).strip()
    ):  # Tables are read without space around it
        return False
    both = zip(run.started.clips, clips_of(pair.source), strict=True)
    return all(own.digest == known.digest for own, known in both if own and known)


def to_trace(rollout: Rollout) -> Trace:
    """The run with the pictures that were new in each turn, as the product keeps them: the page opens it like any other.

    Outside the judge's scope it has no verdict, as in the product; `to_rollout` reads the labels in its replies again.
    """
    run, dialect = rollout.run, run_dialect(rollout.run)
    turns = [
        _with_pictures(turn, prompt[-1], dialect)
        for turn, prompt in zip(run.turns, rollout.prompts, strict=True)
    ]
    end = run.finished
    if end is not None and end.outside_scope:
        end = replace(end, verdict=None, provisional=False)
    return Trace(run.started, tuple(turns), end)


def to_rollout(run: Run, pair: LabelledPair, *, keep_tokens: bool) -> Rollout:
    """The rollout of a stored run, over the frames of its pair.

    `keep_tokens`: the model that is trained wrote it, so its tokens are learnt as they are; those of another model mean nothing to
    it, and the text is tokenised anew. Raises NotForTraining where the run is of another pair, or today's rendering is not what the
    trace says was sent.
    """
    if not is_of(run, pair):
        raise NotForTraining(
            "the data hold another pair today where its own one was: give them, and their videos, as they were"
        )
    if not keep_tokens:
        run = replace(run, turns=tuple(map(_without_tokens, run.turns)))
    if run.finished is not None and run.finished.outside_scope:
        provisional = run.finished.stop is not StopReason.ANSWERED
        run = replace(
            run, finished=replace(run.finished, verdict=run.last_labels, provisional=provisional)
        )
    return Rollout(pair, run, tuple(sent_prompts(run, pair.source)))


def _without_tokens(turn: Turn) -> Turn:
    return replace(
        turn, completion=replace(turn.completion, tokens=(), redirected=None)
    )  # which counts those tokens


def _with_pictures(turn: Turn, new: Message, dialect: Dialect) -> Turn:
    return replace(
        turn,
        frames=tuple(
            make_thumbnail(frame, dialect.frame_number(frame.ref)) for frame in new.frames
        ),
    )
