"""The conversation of a run as the judge was sent it: the same deliberation renders it again, over the frames of the trace."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from vrthinker_core.deliberation import Deliberation
from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import Dialect, make_dialect, sanitize_prompt
from vrthinker_core.training.rows.teaching import NotForTraining
from vrthinker_core.types import Frame, FrameRef, ProtocolName, Run, Thumbnail, Turn
from vrthinker_core.types.frames import FrameSource
from vrthinker_core.types.messages import GeneratedText, Message


@dataclass(frozen=True, slots=True)
class Example:
    """Messages that end with a reply, and the positions of those replies that no earlier example of the run has taught."""

    messages: tuple[Message, ...]
    taught: tuple[int, ...]


def opening_text(run: Run) -> str:
    """The question as the judge is asked it first. Raises NotForTraining where no frame was ever shown."""
    dialect = run_dialect(run)
    frames = _frames(run, dialect, dialect.opening_refs)
    return dialect.opening_messages(sanitize_prompt(run.started.prompt).text, frames)[-1].text


def examples(run: Run) -> Iterator[Example]:
    """The run as examples. Raises NotForTraining where today's rendering is not what the trace says was sent.

    One example holds all turns as long as each prompt goes on where the last one ended. Where a memory window has taken frames
    away it does not, so the turns before are an example of their own.
    """
    prompts, first = sent_prompts(run), 0
    for k, (prompt, turn) in enumerate(zip(prompts, run.turns, strict=True)):
        if k + 1 < len(prompts) and prompts[k + 1][: len(prompt)] == prompt:
            continue
        written = turn.completion.tokens if turn.reply.text == turn.completion.text else ()
        messages = (*prompt, Message("assistant", (GeneratedText(turn.reply.text, written),)))
        replies = [
            position for position, message in enumerate(messages) if message.role == "assistant"
        ]
        yield Example(messages, tuple(replies[first:]))
        first = len(replies)


def run_dialect(run: Run) -> Dialect:
    """The dialect of the run as its settings want it. Raises NotForTraining."""
    try:
        return make_dialect(run.started.settings, cast(ProtocolName, run.started.dialect))
    except BadInput as bad:
        raise NotForTraining(f"its settings are not possible: {bad}") from None


def sent_prompts(run: Run, source: FrameSource | None = None) -> list[tuple[Message, ...]]:
    """What was sent before each reply; with a `source` of the pair's frames they hold their pixels. Raises NotForTraining."""
    if run.started.branch is not None and run.started.branch.frames:
        raise NotForTraining(
            f"a person, not the judge, chose the frames of turn {run.started.branch.turn}"
        )
    dialect = run_dialect(run)
    last = run.turns[-1] if run.turns else None
    follows = last is not None and last.forced and last.told.endswith(dialect.force_answer())
    deliberation = Deliberation(
        run.started.prompt,
        dialect,
        run.started.settings,
        source or (lambda refs: _frames(run, dialect, refs)),
        follows_instructions=follows,
    )
    prompts = []
    for turn in run.turns:
        prompts.append(_prompt(deliberation, turn))
        if turn is not last and deliberation.take(turn.completion) != turn.reply:
            raise NotForTraining(f"the reply of turn {turn.number} is read otherwise today")
    return prompts


def _prompt(deliberation: Deliberation, turn: Turn) -> tuple[Message, ...]:
    while deliberation.in_view != turn.in_view and deliberation.forget_oldest():
        pass  # frames that had left because the context was full
    prompt = deliberation.ask()
    if deliberation.stop_reason is not None or (deliberation.in_view, prompt[-1].text) != (
        turn.in_view,
        turn.told,
    ):
        raise NotForTraining(f"what was sent in turn {turn.number} is rendered otherwise today")
    return prompt


def _frames(run: Run, dialect: Dialect, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
    """The frames as the trace knows them: which they are and how large they were sent, without pixels."""
    shown = {frame.ref: frame for turn in run.turns for frame in turn.frames}
    missing = [ref for ref in refs if ref not in shown]
    if missing or None in run.started.clips:
        raise NotForTraining("it does not hold all the frames that the judge was shown")
    return tuple(_frame(run, dialect, shown[ref]) for ref in refs)


def _frame(run: Run, dialect: Dialect, shown: Thumbnail) -> Frame:
    clip = run.started.clips[shown.ref.side - 1]
    first = {ref.slot for ref in dialect.opening_refs}
    width, height = (
        dialect.sizing(shown.ref.slot in first).size(max(1, clip.width), max(1, clip.height))
        if clip
        else (0, 0)
    )
    return Frame(
        shown.ref, shown.index, shown.seconds, shown.until, width, height, "", b"", shown.note
    )
