"""ReplyBuilder: the chunks of one streamed reply become a `Completion`."""

import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from openai.types.chat import ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import ChoiceDelta

from vrthinker_core.backends.base import RedirectState
from vrthinker_core.backends.server_errors import ALL_THOUGHT, ENDLESS, FILTERED, TOOL_PARSER
from vrthinker_core.errors import BackendFailed, BackendRefused
from vrthinker_core.protocols.labels import mentioned_digits
from vrthinker_core.protocols.segments import lost_its_opening
from vrthinker_core.types.messages import Completion, LabelToken

_ALL_DIGITS = re.compile(r"[0-9]")


@dataclass(frozen=True, slots=True)
class TokenChoice:
    """A written token, and its likeliest alternatives' log probabilities."""

    text: str
    alternatives: Mapping[str, float]


def label_tokens(text: str, choices: Sequence[TokenChoice]) -> tuple[LabelToken, ...]:
    """Return the labels' digits with the probabilities of 0, 1 and 2.

    `choices` holds every token of `text` with a digit. Tokens are matched to the text by their
    digits alone, because a server may write half a character or a special token differently from
    the text. If even the digits differ, nothing is returned.

    A token may hold more than its digit (" 1", "=1"): its alternatives are the same token with
    another digit. An unlisted alternative counts as probability 0, because it was less likely than
    all listed ones.
    """
    places = [match.start() for match in _ALL_DIGITS.finditer(text)]
    if "".join(
        digit for choice in choices for digit in _ALL_DIGITS.findall(choice.text)
    ) != "".join(text[at] for at in places):
        return ()
    wanted = mentioned_digits(text)
    found, position = [], 0
    for choice in choices:
        digits = _ALL_DIGITS.findall(choice.text)
        if len(digits) == 1 and choice.alternatives and places[position] in wanted:
            found.append(LabelToken(places[position], _probabilities(choice, digits[0])))
        position += len(digits)
    return tuple(found)


def _probabilities(choice: TokenChoice, digit: str) -> tuple[float, float, float]:
    found = [
        choice.alternatives.get(choice.text.replace(digit, other), -math.inf) for other in "012"
    ]
    shares = [math.exp(min(0.0, value)) for value in found]
    first, second, third = (share / max(1.0, sum(shares)) for share in shares)  # Servers round
    return first, second, third


def is_log_probability(value: object) -> bool:
    """Return whether a value is usable; JSON `null` means minus infinity."""
    return isinstance(value, int | float) and not math.isnan(value)


def has_digit(text: str) -> bool:
    """Return whether a token belongs into the `choices` of `label_tokens`."""
    return _ALL_DIGITS.search(text) is not None


CALL_END = "</tool_call>"
TOKEN_CHARACTERS = 64  # More than the average token of a reply, in every vocabulary
_UNASKED_CALL = re.compile(r"_tool_call_\d+$")  # Call ids of `transformers serve`


class ReplyBuilder:
    """One reply so far; with `redirect` (a, b), `a` is never emitted."""

    def __init__(self, redirect: tuple[str, str] | None, max_new_tokens: int) -> None:
        self._characters_left = TOKEN_CHARACTERS * max_new_tokens
        self.redirected = False  # `b` replaces `a`, and a new request must continue after `b`
        self.finish_reason = ""  # "" until the server says that the reply is complete
        self.prompt_tokens: int | None = None
        self._first_prompt: int | None = None  # Tokens of the prompt before any redirect
        self._reused_tokens: int | None = None
        self._redirect = RedirectState(redirect)
        self._cost: float | None = None
        self._text, self._emitted = "", 0
        self._pieces: list[int] = []
        self._reasoning: list[str] = []
        self._choices: list[TokenChoice] = []  # Tokens with a digit
        self._new_tokens: int | None = None
        self._started = time.perf_counter()

    @property
    def text(self) -> str:
        """All text so far, including held back text."""
        return self._text

    @property
    def written_tokens(self) -> int:
        """Tokens of the reply so far; 0 if the server counts none."""
        return self._new_tokens or 0

    def add(self, chunk: Any) -> str:
        """Take a chunk and return the text that may be shown now.

        Raises `BackendRefused` if the server keeps a part of the reply for itself, or writes far
        more than requested.
        """
        self._count(getattr(chunk, "usage", None))
        for choice in getattr(chunk, "choices", None) or ():
            self._choices += _choices_in(getattr(choice, "logprobs", None))
            # A last `message` may repeat the whole streamed text
            if choice.delta is not None or not self._text:
                self._take(_delta_of(choice))
            if choice.finish_reason == "tool_calls" and not self._text.endswith(CALL_END):
                raise BackendRefused(TOOL_PARSER)
            self.finish_reason = choice.finish_reason or self.finish_reason
        if (start := self._redirect.cut(self._text)) >= 0:
            self._text, self.redirected = self._text[:start] + self._redirect.wanted, True
        return self._emit(len(self._text) - self._redirect.held_back(self._text))

    def flush(self) -> str:
        """Return the held back text of a complete reply.

        Raises `BackendRefused` or `BackendFailed` if the reply cannot be used.
        """
        if self.finish_reason == "content_filter":
            raise BackendRefused(FILTERED)
        if self.finish_reason == "length" and not self._text.strip():
            raise BackendRefused(ALL_THOUGHT)
        if self.finish_reason in ("error", "abort"):
            raise BackendFailed("The server gave up in the middle of its answer.")
        # After a redirect the judge may close the tag that it had begun
        if self._redirect.end is None and lost_its_opening(self._text):
            raise BackendRefused(TOOL_PARSER)
        return self._emit(len(self._text))

    def go_on(self) -> None:
        """Prepare for the next request, whose prompt holds the reply so far."""
        self.redirected, self.finish_reason = False, ""
        self._choices = [TokenChoice(self._text, {})]
        self._first_prompt, self._new_tokens = self.prompt_tokens, None

    def completion(self, stop: Literal["cancelled"] | None = None) -> Completion:
        """Return the reply; for a cancelled reply the emitted text."""
        text = self._text[: self._emitted]
        return Completion(
            text,
            stop or ("length" if self.finish_reason == "length" else "end"),
            pieces=tuple(self._pieces),
            prompt_tokens=self.prompt_tokens,
            reused_tokens=self._reused_tokens,
            new_tokens=self._new_tokens,
            seconds=time.perf_counter() - self._started,
            cost=self._cost,
            reasoning="".join(self._reasoning),
            label_tokens=label_tokens(text, self._choices),
        )

    def _take(self, delta: Any) -> None:
        content, reasoning = _text_of(getattr(delta, "content", None)), _reasoning_of(delta)
        before = len(self._text)
        self._reasoning.append(reasoning)
        self._text += content
        for call in getattr(delta, "tool_calls", None) or ():
            self._text = _with_call(self._text, call)
        self._characters_left -= len(self._text) - before + len(reasoning)
        if self._characters_left < 0:
            raise BackendRefused(ENDLESS)

    def _count(self, usage: Any) -> None:
        """Take over the server's token counts.

        Each count covers the whole request so far and is never added up. After a redirect the
        prompt holds the reply so far: the reply's tokens are the difference to the first prompt.
        """
        counts = getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
        if not all(isinstance(count, int) for count in counts):
            return
        cost = getattr(usage, "cost", None)  # OpenRouter: US dollars
        if isinstance(cost, int | float) and 0 <= cost < math.inf:
            self._cost = cost
        first = self._first_prompt if self._first_prompt is not None else usage.prompt_tokens
        self._new_tokens = usage.completion_tokens + (usage.prompt_tokens - first)
        self.prompt_tokens = first
        details = getattr(usage, "prompt_tokens_details", None)
        cached = getattr(details, "cached_tokens", None)
        if isinstance(cached, int) and self._reused_tokens is None:
            self._reused_tokens = min(cached, first)

    def _emit(self, end: int) -> str:
        piece = self._text[self._emitted : end]
        if piece:
            self._emitted = end
            self._pieces.append(len(piece))
        return piece


def _choices_in(logprobs: Any) -> list[TokenChoice]:
    """Return the tokens with a digit, nothing if probabilities are unreadable."""
    found = []
    try:
        for token in getattr(logprobs, "content", None) or ():
            if isinstance(token.token, str) and has_digit(token.token):
                alternatives = {
                    each.token: each.logprob
                    for each in token.top_logprobs or ()
                    if is_log_probability(each.logprob)
                }
                found.append(TokenChoice(token.token, alternatives))
    except (AttributeError, TypeError, OverflowError):
        return []
    return found


def _delta_of(choice: Any) -> Any:
    """Return a choice's `delta`, or the `message` of an unstreamed reply."""
    message = getattr(choice, "message", None)
    return (
        ChoiceDelta.construct(**message)
        if choice.delta is None and isinstance(message, dict)
        else choice.delta
    )


def _text_of(content: Any) -> str:
    """Return a message's text, which some servers write as a list."""
    if isinstance(content, list):
        return "".join(
            part["text"]
            for part in content
            if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    return content or ""


def _with_call(text: str, call: Any) -> str:
    """Return the reply with a tool call put back.

    The call gets the protocol's form. The parser of `transformers serve` takes calls, and the white
    space before them, out of every reply, and no option turns it off. It gives each call whole,
    under an id of its own form. Raises `BackendRefused` for any other server, which can leave calls
    in the text.
    """
    if not _UNASKED_CALL.search(call.id or ""):
        raise BackendRefused(TOOL_PARSER)
    name, arguments = json.dumps(call.function.name), call.function.arguments
    return f'{text.rstrip()}\n<tool_call>{{"name": {name}, "arguments": {arguments}}}{CALL_END}'


def _reasoning_of(delta: Any) -> str:
    """Return the reasoning, which servers put in either of two fields."""
    found = getattr(delta, "reasoning", None) or getattr(delta, "reasoning_content", None)
    return found if isinstance(found, str) else ""


def ends_reply(chunk: Any) -> bool:
    """Return whether the reply is complete; only token counts may follow."""
    return any(choice.finish_reason for choice in getattr(chunk, "choices", None) or ())


def holds_token(chunk: Any) -> bool:
    """Return whether a chunk adds to the reply or ends it.

    From this chunk on, a failure is no longer a failure of the request.
    """
    choices = getattr(chunk, "choices", None) or ()
    return ends_reply(chunk) or any(
        getattr(delta, "content", None)
        or _reasoning_of(delta)
        or getattr(delta, "tool_calls", None)
        for delta in map(_delta_of, choices)
    )


def error_in(chunk: Any) -> object:
    """Return the error that the client parsed as a chunk, else None."""
    more = getattr(chunk, "model_extra", None) or {}
    if more.get("error"):
        return more["error"]
    if more and (
        chunk.object == "error" or (chunk.choices is None and isinstance(more.get("message"), str))
    ):
        return more
    return None


async def whole_reply(response: Any) -> Any:
    """Return an unstreamed answer as one chunk, None for a stream.

    Some servers give a stream the type of JSON. A message with complete JSON is complete, even if
    the server does not say so.
    """
    if "json" not in response.headers.get("content-type", ""):
        return None
    try:
        found = json.loads(await response.aread())
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    chunk = ChatCompletionChunk.construct(**found)
    for choice in chunk.choices or ():
        if isinstance(getattr(choice, "message", None), dict):
            choice.finish_reason = choice.finish_reason or "stop"
    return chunk
