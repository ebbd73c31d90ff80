"""Replies read from sampled token ids. A parsed message is not what was sampled: it loses the line break before a call."""

from collections.abc import Sequence

from vrthinker_core.backends.chat_template import SafeTokenizer
from vrthinker_core.types.messages import Completion


def read_replies(ids: Sequence[int], tokenizer: SafeTokenizer) -> list[Completion]:
    """The judge's replies in the tokens of a rollout after its first prompt: replies and, between them, one message each.

    A reply ends at its first end token; one that has none was cut by a token limit (`stop` is "length").
    """
    control, ids = tokenizer.control, list(ids)
    header = len(tokenizer.encode("\n")) + 1 + len(tokenizer.encode("assistant\n"))
    replies: list[Completion] = []
    start = 0
    while start <= len(ids):
        end = _first(ids, start, (control.im_end, control.endoftext))
        tokens = tuple(ids[start:end])
        text = tokenizer.decode(tokens)
        replies.append(
            Completion(
                text,
                "end" if end < len(ids) else "length",
                tokens,
                (len(text),),
                new_tokens=len(tokens),
            )
        )
        start = _first(ids, end + 1, (control.im_end,)) + 1 + header
    return replies


def earlier_replies(prompt: Sequence[int], tokenizer: SafeTokenizer) -> list[Completion]:
    """The replies that a prompt holds, which ends with the header of the reply to come."""
    header = [tokenizer.control.im_start, *tokenizer.encode("assistant\n")]
    starts = (
        start for start in range(len(prompt)) if list(prompt[start : start + len(header)]) == header
    )
    first = next(starts, None)
    return [] if first is None else read_replies(prompt[first + len(header) :], tokenizer)[:-1]


def _first(ids: Sequence[int], start: int, wanted: tuple[int, ...]) -> int:
    """The first position from `start` on of a wanted token, else the number of tokens."""
    return next(
        (position for position in range(start, len(ids)) if ids[position] in wanted), len(ids)
    )
