"""SFT rows as rollouts: those that `export` wrote come back as the very conversation, published ones with their pictures' files."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

from vrthinker_core.dialects import Dialect, make_dialect, with_defaults
from vrthinker_core.dialects.factory import frame_layout
from vrthinker_core.errors import BadInput
from vrthinker_core.results.datasets.layout import find_below
from vrthinker_core.text import encodable
from vrthinker_core.training.labelled_pairs.open_clips import OpenClips
from vrthinker_core.training.labelled_pairs.picture_file import read_picture
from vrthinker_core.training.labelled_pairs.row_file import prompt_in, read_json_rows
from vrthinker_core.training.rollouts import LabelledPair, Rollout
from vrthinker_core.training.rows.rollout_trace import StoredRollout
from vrthinker_core.types import (
    Dimension,
    Frame,
    FrameRef,
    Preference,
    ProtocolName,
    Run,
    Settings,
    Side,
    StopReason,
    Turn,
    Verdict,
    VideoPair,
)
from vrthinker_core.types.events import Finished, Started
from vrthinker_core.types.geometry import FrameLayout
from vrthinker_core.types.messages import Completion, GeneratedText, Image, Message, Part, Text, Video

JsonObject = Mapping[str, Any]


class SftFile(AbstractContextManager["SftFile"]):
    """A file of SFT rows. Whoever opens one closes it."""

    def __init__(self, path: Path) -> None:
        """Raises BadInput for a file that cannot be read."""
        self._path = path
        self._rows = list(enumerate(read_json_rows(path), start=1))
        self._clips: dict[FrameLayout, OpenClips] = {}

    def rollouts(self, *, keep_tokens: bool) -> Iterator[StoredRollout]:
        """The conversations, in order; the rows of one run are one rollout. `keep_tokens` as in `to_rollout`.

        Raises BadInput with the row's number for a row that is none, or whose pictures or videos are not there.
        """
        for _, rows in groupby(self._rows, key=_run_of):
            yield StoredRollout.read(partial(self._read, list(rows), keep_tokens))

    def _read(self, rows: Sequence[tuple[int, JsonObject]], keep_tokens: bool) -> Rollout:
        number = rows[0][0]
        try:
            return self._rollout([row for _, row in rows], number, keep_tokens)
        except BadInput as bad:
            raise BadInput(f"Row {number} of {self._path.name}: {bad}") from None
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            raise BadInput(f"Row {number} of {self._path.name} is no SFT row with a message_list.") from None

    def close(self) -> None:
        """Close every video that is open."""
        for clips in self._clips.values():
            clips.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rollout(self, rows: Sequence[JsonObject], number: int, keep_tokens: bool) -> Rollout:
        first = rows[0]
        settings = Settings(**(first.get("settings") or {}))
        dialect = make_dialect(settings, _protocol(first))
        prompts: list[tuple[Message, ...]] = []
        turns: list[Turn] = []
        for row in rows:
            messages = self._messages(row, dialect, keep_tokens)
            for position in _taught(row, messages):
                prompts.append(messages[:position])
                turns.append(_turn(len(turns) + 1, messages, position, dialect))
        if not turns:
            raise BadInput("it holds no reply to learn.")
        truth = _truth(first)
        prompt = first.get("prompt") or prompt_in(next(message.text for message in prompts[0] if message.role == "user")) or ""
        started = Started(prompt, str(first.get("judge", "")), dialect.name, with_defaults(settings, dialect), (None, None))
        end = Finished(StopReason.ANSWERED, turns[-1].reply.verdict)
        pair = LabelledPair(prompt, truth, self._source(first, dialect), number)
        return Rollout(pair, Run(started, tuple(turns), end), tuple(prompts))

    def _messages(self, row: JsonObject, dialect: Dialect, keep_tokens: bool) -> tuple[Message, ...]:
        tokens = iter(row.get("tokens", ()) if keep_tokens else ())
        return tuple(self._message(message, row, dialect, tokens) for message in row["message_list"])

    def _message(self, message: JsonObject, row: JsonObject, dialect: Dialect, tokens: Iterator[Sequence[int]]) -> Message:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] == "assistant":
            text = "".join(part["text"] for part in parts)
            return Message("assistant", (GeneratedText(text, tuple(next(tokens, ()))),))
        shown = tuple(self._part(part, row, dialect) for part in parts)
        return Message("system" if message["role"] == "system" else "user", shown)

    def _part(self, part: JsonObject, row: JsonObject, dialect: Dialect) -> Part:
        if part["type"] == "text":
            return Text(str(part["text"]))
        named = part[part["type"]]
        names, places = (named, part.get("frames", ())) if isinstance(named, list) else ([named], [part] if "slot" in part else [])
        frames = self._frames(names, places, row, dialect)
        return Image(frames[0]) if part["type"] == "image" else Video(frames)

    def _frames(self, names: Sequence[str], places: Sequence[JsonObject], row: JsonObject, dialect: Dialect) -> tuple[Frame, ...]:
        """The frames of a part: from the row's videos where their places stand there, from picture files otherwise."""
        if not places:
            return tuple(
                read_picture(find_below(self._path.parent, name, absolute=True), place) for place, name in enumerate(names)
            )
        refs = [FrameRef(place["slot"], Side(place["side"])) for place in places]
        frames = self._source(row, dialect)(refs)
        for frame, place in zip(frames, places, strict=True):
            found = (frame.index, frame.width, frame.height)
            if found != (place["index"], place["width"], place["height"]):
                raise BadInput(f"slot {frame.ref.slot} of video {int(frame.ref.side)} is another frame, or of another size, today.")
        return frames

    def _source(self, row: JsonObject, dialect: Dialect) -> "_RowFrames":
        layout = frame_layout(dialect)
        if layout not in self._clips:
            self._clips[layout] = OpenClips(layout)
        named = [video["path"] for video in row.get("videos", ())]
        return _RowFrames(self._path.parent, tuple(named), str(row.get("prompt", "")), self._clips[layout])


@dataclass(frozen=True, slots=True)
class _RowFrames:
    """A `FrameSource` over the videos that a row names."""

    folder: Path
    named: tuple[str, ...]
    prompt: str
    among: OpenClips

    def __call__(self, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        first, second = (find_below(self.folder, name, absolute=True) for name in self.named)
        return self.among.frames(VideoPair(self.prompt, first, second), refs)


def _run_of(entry: tuple[int, Any]) -> tuple[object, ...]:
    """Equal for the rows of one run: a memory window makes several of it."""
    number, row = entry
    return (row["trace"], row.get("order")) if isinstance(row, Mapping) and "trace" in row else (number,)


def _protocol(row: JsonObject) -> ProtocolName:
    """The dialect that the row says, else the one whose answers it holds."""
    known: tuple[ProtocolName, ...] = get_args(ProtocolName)
    for name in known:
        if row.get("protocol") == name:
            return name
    return "concat" if "final answer>" in str(row["message_list"][-1]["content"]) else "paired"


def _taught(row: JsonObject, messages: Sequence[Message]) -> Sequence[int]:
    """The positions of the replies to learn. Raises BadInput where one is no reply, or nothing was asked before it."""
    replies = [position for position, message in enumerate(messages) if message.role == "assistant"]
    taught: Sequence[int] = row.get("taught", replies)
    for position in taught:
        if position not in replies:
            raise BadInput(f'"taught" names message {position}, counted from 0, which is no reply of the assistant.')
        if not any(message.role == "user" for message in messages[:position]):
            raise BadInput(f"before the reply in message {position}, counted from 0, there is no message of the user.")
    return taught


def _truth(row: JsonObject) -> Verdict:
    """The labels of the row. Raises BadInput for one that is none."""
    labels = row.get("labels") or {}
    for name, label in labels.items():
        if name not in tuple(Dimension) or label not in tuple(Preference):
            raise BadInput(f"{encodable(str(name))} is {label!r}, which is no label. Labels are TA, VQ, MQ and OA, each 0, 1 or 2.")
    return Verdict(**{name: Preference(label) for name, label in labels.items()})


def _turn(number: int, messages: Sequence[Message], position: int, dialect: Dialect) -> Turn:
    (written,) = messages[position].parts
    assert isinstance(written, GeneratedText)
    completion = Completion(written.text, tokens=written.tokens)
    return Turn(number, messages[position - 1].text, (), completion, dialect.parse(written.text))
