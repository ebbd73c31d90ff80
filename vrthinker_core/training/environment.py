"""The deliberation as TRL's `environment_factory` sees it, byte for byte what the judge is sent.

TRL's loop differs from `play`: a call on the last turn is not redirected to an answer (the sentence
that asks for it is there); frames never leave the conversation, so a memory window must be "all";
past the token limit of a rollout TRL ends it, while the product lets the oldest frames go; a reply
that is cut at `max_new_tokens` ends it, too, while the product asks once again. Such a rollout has
no answer and is rewarded as one.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vrthinker_core.backends.base import JudgeDescription
from vrthinker_core.backends.chat_template import videos_as_images
from vrthinker_core.backends.scripted import ScriptedBackend
from vrthinker_core.comparison import Clips, Comparison, clips_of
from vrthinker_core.errors import BadInput
from vrthinker_core.training.pair_set import PairSet
from vrthinker_core.training.rollouts import LabelledPair, Rollout, open_rollout, rollout_of
from vrthinker_core.types import Frame, FrameRef, Settings, StopReason
from vrthinker_core.types.frames import FrameSource
from vrthinker_core.types.messages import Completion, Image, Message, Video

Block = dict[str, Any]  # {"type": "text", "text": …} or {"type": "image", "image": a PIL picture}


class FrameEnvironment:
    """One pair and deliberation at a time. TRL takes each public method but `reset` for a tool."""

    def __init__(
        self,
        pairs: PairSet,
        judge: JudgeDescription,
        settings: Settings,
        *,
        video_items: bool = True,
    ) -> None:
        """`video_items`: see `Marker`; without them a video is sent frame by frame."""
        self._pairs, self._judge, self._settings = pairs, judge, settings
        self._video_items = video_items
        self.pair: LabelledPair  # Of this rollout
        self._comparison: Comparison

    def reset(self, **row: Any) -> list[Block]:
        """Begin with the pair of `number`; gives the first user message, which TRL adds."""
        pair = self._pairs.pair(int(row["number"]))
        self.pair = replace(pair, source=CachedFrames(pair.source))
        self._comparison = begin(self.pair, self._judge, self._settings)
        opening = first_prompt(self._comparison)
        return content_blocks((opening if self._video_items else videos_as_images(opening))[-1])

    def select_frames(
        self,
        frame_indices: list[int] | None = None,
        target_frames: list[int] | None = None,
        reply: str | None = None,
    ) -> list[Block]:
        """Show more frames of both videos.

        Args:
            frame_indices: Frames to show, as the protocol `paired` numbers them.
            target_frames: Frames to show, as the protocol `concat` numbers them.
            reply: The whole reply, where it is at hand; the call is read from it.
        """
        comparison, protocol = self._comparison, self._comparison.protocol
        if comparison.request is None or comparison.deliberation is None:
            return content_blocks(protocol.retry_message(()))
        if reply is None:
            reply = protocol.call(frame_indices or target_frames or ())
        _answer(comparison, Completion(reply))
        if comparison.error is not None:  # no reward follows; the protocol holds to the end
            return content_blocks(protocol.tool_error(None, ()))
        return content_blocks(comparison.deliberation.ask()[-1])


def begin(pair: LabelledPair, judge: JudgeDescription, settings: Settings) -> Comparison:
    """Return a rollout at its first request, whose replies come from elsewhere."""
    silent = ScriptedBackend(
        (" ",),
        judge.protocols[0] if judge.protocols else None,
        judge.name,
        follows_instructions=judge.follows_instructions,
        scope=judge.scope,
        notes=judge.notes,
    )
    comparison = open_rollout(pair, silent, settings)
    deque(comparison.advance(), maxlen=0)
    return comparison


def first_prompt(comparison: Comparison) -> Sequence[Message]:
    """Return the messages of the first request. Raises the error that ends the run."""
    if comparison.request is None:
        raise comparison.error or BadInput("The rollout is over.")
    return comparison.request.messages


def replay(
    pair: LabelledPair, judge: JudgeDescription, settings: Settings, replies: Sequence[Completion]
) -> Rollout:
    """The rollout of a pair whose replies are known, up to the one that ends it.

    If none does, the tokens were used up. If a frame cannot be had, the rollout has failed.
    """
    comparison = begin(pair, judge, settings)
    for reply in replies:
        if comparison.request is not None:
            _answer(comparison, reply)
    comparison.end(StopReason.TOKEN_LIMIT)
    return rollout_of(pair, comparison)


def _answer(comparison: Comparison, reply: Completion) -> None:
    """Take the reply to the request, and go on to the next one."""
    comparison.add(reply)
    deque(comparison.advance(), maxlen=0)


def content_blocks(message: Message) -> list[Block]:
    """The parts of a message as blocks. Raises BadInput for a video, which GRPO does not send."""
    blocks: list[Block] = []
    for part in message.parts:
        match part:
            case Image(frame):
                blocks.append({"type": "image", "image": frame.image})
            case Video():
                raise BadInput(
                    "GRPO sends pictures only, and concat opens with a video: train paired."
                )
            case _:
                blocks.append({"type": "text", "text": part.text})
    return blocks


class CachedFrames:
    """A `FrameSource` that asks `source` once per request: its reward replays a rollout."""

    def __init__(self, source: FrameSource) -> None:
        self._source = source
        self._known: dict[tuple[FrameRef, ...], tuple[Frame, ...]] = {}

    @property
    def clips(self) -> Clips:
        """The clips of the source."""
        return clips_of(self._source)

    def __call__(self, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        """The frames of the refs, in their order."""
        wanted = tuple(refs)
        if wanted not in self._known:
            self._known[wanted] = self._source(wanted)
        return self._known[wanted]
