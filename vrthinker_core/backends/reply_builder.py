"""ReplyBuilder: the chunks of one streamed reply become a `Completion`."""

import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from openai.types.chat import ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import ChoiceDelta

from vrthinker_core.backends.base import ReplyText
from vrthinker_core.backends.engines import objects_in
from vrthinker_core.backends.server_errors import TOOL_PARSER, Secret, quoted, streamed_failure
from vrthinker_core.errors import BackendFailed, BackendRefused
from vrthinker_core.protocols.segments import lost_its_opening, mentioned_digits
from vrthinker_core.types.messages import Completion, LabelToken

_LENGTH = ("length", "max_tokens", "max_output_tokens")
_ALL_DIGITS = re.compile(r"[0-9]")
_FILTER = re.compile(r"content.?filter|safety|prohibited|refusal|sensitive|blocked", re.IGNORECASE)
"""How hosts and the models behind them name a filter as the reason of an end."""


TokenChoice = tuple[str, Mapping[str, float]]
"""A written token, and its likeliest alternatives' log probabilities."""


def label_tokens(text: str, choices: Sequence[TokenChoice]) -> tuple[LabelToken, ...]:
    """Return the labels' digits with the probabilities of 0, 1 and 2.

    `choices` holds every token of `text` with a digit. If their digits are not those of the text,
    nothing is returned; other characters may differ, since servers write special tokens in two ways.
    A token may hold more than its digit (" 1", "=1"): its alternatives are the same token with
    another digit. An unlisted one counts as probability 0: all listed ones were likelier.
    """
    places = [match.start() for match in _ALL_DIGITS.finditer(text)]
    written = _ALL_DIGITS.findall("".join(token for token, _ in choices))
    if written != [text[place] for place in places]:
        return ()
    wanted = mentioned_digits(text)
    found, position = [], 0
    for token, alternatives in choices:
        digits = _ALL_DIGITS.findall(token)
        if len(digits) == 1 and alternatives and places[position] in wanted:
            others = (token.replace(digits[0], other) for other in "012")
            values = (alternatives.get(other, -math.inf) for other in others)
            shares = [math.exp(min(0.0, value)) for value in values]
            total = max(1.0, sum(shares))  # Servers round
            tie, first, second = (share / total for share in shares)
            found.append(LabelToken(places[position], (tie, first, second)))
        position += len(digits)
    return tuple(found)


class ReplyBuilder(ReplyText):
    """One reply so far; with `redirect` (a, b), `a` is never emitted."""

    def __init__(self, redirect: tuple[str, str] | None, max_new_tokens: int) -> None:
        super().__init__(redirect)
        # 64: more than the average token of a reply, in every vocabulary
        self._characters_left = 64 * max_new_tokens
        self.redirected = False  # `b` replaces `a`, and a new request must continue after `b`
        self.finish_reason = ""  # "" until the server says that the reply is complete
        self.prompt_tokens: int | None = None
        self._first_prompt: int | None = None  # Tokens of the prompt before any redirect
        self._reused_tokens: int | None = None
        self._cost: float | None = None
        self._reasoning = self._refusal = ""
        self._choices: list[TokenChoice] = []  # Tokens with a digit
        self.new_tokens: int | None = None  # Of the reply so far; None if the server counts none
        self.taken = 0  # Pieces that were passed on to the reader
        self._started = time.perf_counter()

    def add(self, chunk: Any) -> str:
        """Take a chunk and return the text that may be shown now.

        Raises `BackendRefused` if the server keeps a part of the reply for itself, or writes far
        more than requested.
        """
        self._count(getattr(chunk, "usage", None))
        for choice in getattr(chunk, "choices", None) or ():
            self._choices += _choices_in(getattr(choice, "logprobs", None))
            # A last `message` may repeat the whole streamed text
            if choice.delta is not None or not self.written:
                self._take(_delta_of(choice))
            if choice.finish_reason == "tool_calls" and not self.written.endswith("</tool_call>"):
                raise BackendRefused(TOOL_PARSER)
            ended = choice.finish_reason or self.finish_reason
            self.finish_reason = "length" if ended.lower() in _LENGTH else ended
        self.redirected = self.replace_phrase() >= 0
        return self.emit(self.safe_end())

    def flush(self) -> str:
        """Return the held back text of a complete reply.

        Raises `BackendRefused` or `BackendFailed` if the reply cannot be used.
        """
        if self.finish_reason == "stop" and not self.written.strip():
            # A reasoning parser took the reply whole
            self.written, self._reasoning = self._reasoning, ""
        reason, written = self.finish_reason, self.written.strip()
        if reason in ("error", "abort"):
            raise BackendFailed("The server gave up in the middle of its answer.")
        if reason == "length" and not written:
            raise BackendRefused(
                "The judge thought until its tokens were used up and wrote nothing. "
                "Allow it more tokens a reply, or choose another judge."
            )
        filtered, known = _FILTER.match(reason), reason in ("stop", "tool_calls")
        if filtered or not (written or (known and not self._refusal)):
            how = "The server ends this reply before its first word."
            if filtered:
                how = "The server's content filter stopped the reply, so this pair cannot be judged there."
            said = quoted(self._refusal or reason)
            raise BackendRefused(f"{how} Choose another judge. It says: {said}.")
        # After a redirect the judge may close the tag that it had begun
        if self._replaced_to is None and lost_its_opening(self.written):
            raise BackendRefused(TOOL_PARSER)
        return self.emit(len(self.written))

    def begin(self) -> None:
        """Prepare for a request, whose prompt holds the reply so far."""
        self.redirected, self.finish_reason = False, ""
        self._choices = [(self.written, {})]
        self._first_prompt, self.new_tokens = self.prompt_tokens, None

    def completion(self, *, cancelled: bool = False) -> Completion:
        """Return the reply; a cancelled one ends with the last taken piece."""
        pieces = tuple(self.pieces[: self.taken] if cancelled else self.pieces)
        tokens = label_tokens(self.text, self._choices)
        return Completion(
            self.text[: sum(pieces)],
            "cancelled" if cancelled else "length" if self.finish_reason == "length" else "end",
            pieces=pieces,
            prompt_tokens=self.prompt_tokens,
            reused_tokens=self._reused_tokens,
            new_tokens=self.new_tokens,
            seconds=time.perf_counter() - self._started,
            cost=self._cost,
            reasoning=self._reasoning,
            label_tokens=tuple(token for token in tokens if token.offset < sum(pieces)),
        )

    def _take(self, delta: Any) -> None:
        content, reasoning = getattr(delta, "content", None) or "", _reasoning_of(delta)
        if isinstance(content, list):  # Some servers write it so
            texts = (part.get("text") for part in content if isinstance(part, dict))
            content = "".join(text for text in texts if isinstance(text, str))
        self._refusal += getattr(delta, "refusal", None) or ""
        before = len(self.written)
        self._reasoning += reasoning
        self.written += content
        for call in getattr(delta, "tool_calls", None) or ():
            # The parser of `transformers serve` takes calls, and the white space before them, out
            # of every reply, and no option turns it off. It gives each call whole, under an id of
            # its own form. Any other server can leave calls in the text
            if not re.search(r"_tool_call_\d+$", call.id or ""):
                raise BackendRefused(TOOL_PARSER)
            name, arguments = json.dumps(call.function.name), call.function.arguments
            call_text = f'<tool_call>{{"name": {name}, "arguments": {arguments}}}</tool_call>'
            self.written = f"{self.written.rstrip()}\n{call_text}"
        self._characters_left -= len(self.written) - before + len(reasoning)
        if self._characters_left < 0:
            raise BackendRefused(
                "The server writes far more than it was asked for and does not end. "
                "Choose another judge, or another server."
            )

    def _count(self, usage: Any) -> None:
        """Take over the server's token counts.

        Each count covers the whole request so far and is never added up. After a redirect the
        prompt holds the reply so far: the reply's tokens are the difference to the first prompt.
        """
        prompt, new = (getattr(usage, f"{each}_tokens", None) for each in ("prompt", "completion"))
        if not (isinstance(prompt, int) and isinstance(new, int)):
            return
        cost = getattr(usage, "cost", None)  # OpenRouter: US dollars
        if isinstance(cost, int | float) and 0 <= cost < math.inf:
            self._cost = cost
        first = prompt if self._first_prompt is None else self._first_prompt
        self.new_tokens = new + prompt - first
        self.prompt_tokens = first
        details = getattr(usage, "prompt_tokens_details", None)
        cached = getattr(details, "cached_tokens", None)
        if isinstance(cached, int) and self._reused_tokens is None:
            self._reused_tokens = min(cached, first)


def _choices_in(logprobs: Any) -> list[TokenChoice]:
    """Return the tokens with a digit, nothing if probabilities are unreadable."""
    found: list[TokenChoice] = []
    try:
        for token in getattr(logprobs, "content", None) or ():
            if isinstance(token.token, str) and _ALL_DIGITS.search(token.token):
                alternatives = {  # JSON `null` means minus infinity
                    each.token: each.logprob
                    for each in token.top_logprobs or ()
                    if isinstance(each.logprob, int | float) and not math.isnan(each.logprob)
                }
                found.append((token.token, alternatives))
    except (AttributeError, TypeError, OverflowError):
        return []
    return found


def _delta_of(choice: Any) -> Any:
    """Return a choice's `delta`, or the `message` of an unstreamed reply."""
    message: Any = getattr(choice, "message", None)
    whole = choice.delta is None and isinstance(message, dict)
    return ChoiceDelta.construct(**message) if whole else choice.delta


def _reasoning_of(delta: Any) -> str:
    """Return the reasoning, which servers put in either of two fields."""
    found = getattr(delta, "reasoning", None) or getattr(delta, "reasoning_content", None)
    return found if isinstance(found, str) else ""


def ends_reply(chunk: Any) -> bool:
    """Return whether the reply is complete; only token counts may follow."""
    return any(choice.finish_reason for choice in getattr(chunk, "choices", None) or ())


def holds_token(chunk: Any) -> bool:
    """Return whether a chunk adds to the reply or ends it."""
    choices = getattr(chunk, "choices", None) or ()
    return ends_reply(chunk) or any(
        getattr(delta, "content", None)
        or getattr(delta, "refusal", None)
        or _reasoning_of(delta)
        or getattr(delta, "tool_calls", None)
        for delta in map(_delta_of, choices)
    )


def checked(chunk: Any, secret: Secret) -> Any:
    """Return the chunk; raise the failure that the client parsed as one."""
    more = getattr(chunk, "model_extra", None) or {}
    error = more.get("error")
    if more and not error:
        told = chunk.choices is None and isinstance(more.get("message"), str)
        error = more if told or chunk.object == "error" else None
    if error:
        raise streamed_failure(error, secret)
    return chunk


async def whole_reply(response: Any) -> Any:
    """Return an unstreamed answer as one chunk, None for a stream."""
    if "json" not in response.headers.get("content-type", ""):
        return None
    try:
        found = json.loads(await response.aread())
    except ValueError:  # Some servers give a stream this type
        return None
    if not isinstance(found, dict):
        return None
    for each in objects_in(found.get("choices")):
        logprobs = each.get("logprobs")
        if isinstance(logprobs, dict):  # Most tokens have no digit, and each is costly to build
            tokens = objects_in(logprobs.get("content"))
            digits = [token for token in tokens if _ALL_DIGITS.search(str(token.get("token")))]
            logprobs["content"] = digits
    chunk = ChatCompletionChunk.construct(**found)
    for choice in chunk.choices or ():
        if isinstance(getattr(choice, "message", None), dict):
            # Complete JSON holds a complete message, even if the server does not say so
            choice.finish_reason = choice.finish_reason or "stop"
    return chunk
