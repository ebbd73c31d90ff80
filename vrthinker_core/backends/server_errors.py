"""The failures of a server, as sentences without key and address."""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from html import unescape
from math import inf
from typing import Any
from urllib.parse import unquote

import openai

from vrthinker_core.backends.engines import ENGINES, UNKNOWN
from vrthinker_core.errors import (
    BackendFailed,
    BackendRefused,
    ContextFull,
    JudgeError,
    RequestRefused,
    ServerUnavailable,
    out_of_files,
)

QUOTED = 300  # Characters of a server's own words in a sentence

TOOL_PARSER = (
    "The server takes the judge's <tool_call> out of the reply: its tool parser is on. "
    "Start it without --enable-auto-tool-choice and without --tool-call-parser."
)
GARBAGE = (
    "The server answers with something that is no chat completion. "
    "Check that the address is an OpenAI-compatible one, with /v1."
)

_CONTEXT = re.compile(
    r"context[ _](?:length|window|size)|maximum model length|prompt is too long"
    r"|(?:token count|input length)\W.{0,40}exceeds",
    re.IGNORECASE,
)
"""How servers and hosts say that a prompt is too long: in words, or in a code or type."""
_LASTING = re.compile(
    r"(?:n.t |\bun)support|\binvalid|BadRequest|too (?:large|long|many)\b|\bat most\b|\bexceed",
    re.IGNORECASE,
)
"""How a failing server blames the request, besides `_CONTEXT`."""
_MOMENTARY = re.compile(
    r"rate.?limit|overload|\bbusy\b|temporar|time[d-]?.?out|try again|\bretry|\blater\b"
    r"|loading (?:the )?model|(?:is|currently|still) loading"
    r"|(?:internal|server|unexpected|unknown|an) error",
    re.IGNORECASE,
)
"""How a server says that it failed for now, or failed without a cause."""
_MASKED = re.compile(r"\S*(?:\*\*|\w\.\.\.\w|…)\S*")
_ESCAPED = re.compile(r"\\(?:u\{?|x)([0-9a-fA-F]{2,4})\}?")
ECHO = 8  # Characters of a key in a server's words by which the key counts as told
_PAGE = re.compile(r"\s*<[a-z!?]", re.IGNORECASE)


class TransientError(Exception):
    """A transient failure, which a retry may cure.

    `status` is 0 without an answer. `wait` holds the seconds that the server asks for, if any.
    `cause` holds the server's words, "" if they name no cause.
    """

    tries = 0  # Requests so far; 0 once the reply has begun
    lasts = False  # The try before had the same cause

    def __init__(
        self, sentence: str, status: int = 0, wait: float | None = None, cause: str = ""
    ) -> None:
        super().__init__(sentence)
        self.status, self.wait, self.cause = status, wait, cause


class RequestRefusal(Exception):
    """A server's refusal of this request, in its own words without the key."""

    def __init__(self, status: int, message: str, answer: str) -> None:
        super().__init__(message)
        self.status, self.answer = status, answer or message  # The whole answer as text


@dataclass(frozen=True, slots=True)
class Secret:
    """The key, protected from becoming text by accident."""

    value: str = field(repr=False)
    variable: str  # The environment variable for the key, set or not

    def removed_from(self, text: str) -> str:
        """Return the text without the key; "" if the key stands in it in another spelling."""
        text = _MASKED.sub("[key]", text.replace(self.value, "[key]")) if self.value else text
        return "" if self._stands_in(text) else text

    def _stands_in(self, text: str) -> bool:
        """Whether 8 characters of the key stand there: quoted, escaped, spaced or encoded."""
        value, plain = self.value.encode(), _letters(self.value)
        if len(plain) < ECHO:
            return False
        # Base64 of the same bytes depends on their place among threes; the ends on their neighbours
        codes = [b64encode(bytes(place) + value)[2 * place : -4].decode() for place in range(3)]
        spellings = (plain, plain[::-1], *map(_letters, (value.hex(), *codes)))
        parts = {each[at : at + ECHO] for each in spellings for at in range(len(each) - ECHO + 1)}
        seen = text
        for _ in range(3):  # It may be encoded more than once
            said = _letters(seen)
            if any(said[at : at + ECHO] in parts for at in range(len(said) - ECHO + 1)):
                return True
            seen = unquote(unescape(_ESCAPED.sub(lambda code: chr(int(code[1], 16)), seen)))
        return False


def _letters(text: str) -> str:
    """Return the letters and digits alone, in lower case."""
    return "".join(filter(str.isalnum, text)).casefold()


def quoted(text: str) -> str:
    """Return words as one line of at most 300 characters, without control characters."""
    shown = "".join(each if each.isprintable() else " " for each in text[: 10 * QUOTED])
    return " ".join(shown.split())[:QUOTED].rstrip(". ") or "nothing"


def failure_of(error: Exception, secret: Secret) -> Exception:
    """Return a `TransientError`, a `RequestRefusal`, or what ends the turn."""
    if isinstance(error.__cause__, BackendRefused):  # Of `refuse_redirect`
        error = error.__cause__
    if isinstance(error, JudgeError | TransientError | RequestRefusal):
        return error
    if isinstance(error, openai.APIStatusError):
        wait = None
        with suppress(ValueError):  # `Retry-After` may be missing, or a date
            seconds = float(error.response.headers.get("retry-after", ""))
            wait = seconds if 0 < seconds < inf else None
        return _failure(error.status_code, error.code, _answer(error), secret, wait)
    kind = type(error.__cause__ or error).__name__ + type(error).__name__
    if "Timeout" in kind:
        return TransientError(
            "The server stayed silent for too long. "
            "See whether it is overloaded, and compare again."
        )
    cause: BaseException | None = error
    while cause is not None:
        if sentence := out_of_files(cause):
            return TransientError(sentence)
        cause = cause.__cause__ or cause.__context__
    of_client = type(error).__module__.startswith(("httpx", "httpcore"))
    if of_client or isinstance(error, openai.APIConnectionError):
        return TransientError(
            "The server cannot be reached, or drops the connection. "
            "Start it, or check the address and the network."
        )
    if isinstance(error, openai.APIError):
        return streamed_failure(error.body or error.message, secret)
    garbage = ValueError | TypeError | AttributeError | RecursionError | openai.OpenAIError
    return BackendFailed(GARBAGE) if isinstance(error, garbage) else error


async def refuse_redirect(response: Any) -> None:
    """Raise `BackendRefused` before frames follow a redirect; an event hook of the client."""
    if response.has_redirect_location and response.request.method == "POST":
        raise redirected(response.url, response.url.join(response.headers["location"]))


def redirected(asked: Any, where: Any) -> BackendRefused:
    """Return the error for a redirect, which no frames and no key follow."""
    bases = []
    for url in (asked, where):
        path = url.path.rstrip("/").removesuffix("/chat/completions").removesuffix("/models")
        bases.append(f"{url.scheme}://{url.netloc.decode()}{path}")
    way, advice = bases[1], "Use that address."
    if bases[0] == bases[1]:  # Only a slash differs, for example
        way, advice = f"its path {where.path}", "Let it answer without that redirect."
    return BackendRefused(f"The server redirects to {way}, where nothing is sent on. {advice}")


def streamed_failure(answer: object, secret: Secret) -> Exception:
    """Classify an error within a stream, which may have no status."""
    code = str(answer.get("code", "")) if isinstance(answer, Mapping) else ""
    return _failure(int(code) if re.fullmatch(r"[45]\d\d", code) else 0, code, answer, secret)


def _failure(
    status: int, code: object, answer: object, secret: Secret, wait: float | None = None
) -> Exception:
    """Classify a server's error; `status` is 0 if it has none.

    A 500 may be transient or not. It is not if the server's words blame the request, or if they
    name the same cause twice.
    """
    said = _words(answer)
    text = said if isinstance(answer, str) else _as_text(answer)
    message, name = quoted(secret.removed_from(said)), secret.variable
    if status == 401 or (status == 400 and re.search(r"(?i)\bAPI[ _]key\b", said)):  # 400: Gemini
        how = "does not accept the key in" if secret.value else "wants a key: put it into"
        return BackendRefused(f"The server {how} {name}. It says: {message}.")
    if status == 403:  # A valid key may lack a right to a country, a model or an account
        key = "The key is the one in" if secret.value else "No key was sent: put one into"
        return BackendRefused(f"The server forbids the request. It says: {message}. {key} {name}.")
    if code == "insufficient_quota":  # The words do not tell: rate limits speak of quotas, too
        return BackendRefused(
            f"The account of the key has no quota left. The server says: {message}."
        )
    passes = status in (0, 408, 409, 425, 429) or (status >= 500 and status != 501)
    # After its own words a server may repeat the request, which may hold any word
    named = status in (0, 500) and wait is None and not _MOMENTARY.search(message + text[:QUOTED])
    at_fault = named and bool(_CONTEXT.search(text) or _LASTING.search(text))
    if not passes or at_fault or "cache miss" in said.lower():
        return RequestRefusal(status or 400, secret.removed_from(said), text)
    failed = f"failed with status {status}" if status else "failed while it answered"
    failed = "has too many requests" if status == 429 else failed
    quote = f" It says: {message}." if said else ""
    sentence = f"The server {failed}.{quote} Check the server, and compare again later."
    return TransientError(sentence, status, wait, message if said and named else "")


def _answer(error: openai.APIStatusError) -> object:
    """Return the answer without FastAPI's `input`, which may repeat the request."""
    if error.body is None:
        return ""
    try:
        return json.loads(
            error.response.text,
            object_hook=lambda found: {key: found[key] for key in found if key != "input"},
        )
    except (ValueError, RecursionError):
        return error.response.text


def _words(answer: object) -> str:
    """Return the sentence in an answer, else all of it; a page's title."""
    while isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    if isinstance(answer, Mapping):
        inner = answer["error"] if isinstance(answer.get("error"), Mapping) else answer
        metadata = inner.get("metadata")
        # OpenRouter passes on the words of the server behind it, which say more than its own
        passed = metadata.get("raw") if isinstance(metadata, Mapping) else None
        if isinstance(passed, str) and passed.strip() and not _PAGE.match(passed):
            answer = passed
        else:
            found = (inner.get(key) for key in ("message", "detail", "error"))
            answer = next((words for words in found if isinstance(words, str)), answer)
    text = _as_text(answer).strip()
    if not _PAGE.match(text):
        return text
    title = re.search(r"(?i)<title[^>]*>([^<]*)", text)
    return title[1].strip() if title else ""


def _as_text(answer: object) -> str:
    if isinstance(answer, str):
        return answer
    return json.dumps(answer, ensure_ascii=False) if answer else ""


def tokens_left(refusal: RequestRefusal) -> int:
    """Return the room for a reply in tokens, 0 if that is not the matter.

    Earlier versions of vLLM and SGLang refuse a request if its longest reply does not fit; vLLM
    0.32 shortens the reply. If a server stopped counting ("at least"), the room is unknown.
    """
    said = str(refusal)
    length = re.search(r"(?i)maximum (?:context|model) length (?:is|of) (\d+)", said)
    counted = r"(?: tokens)? (?:in the messages|input tokens|from the input messages)"
    prompt = re.search(rf"(?i)(?<!at least )\b(\d+){counted}", said)
    return max(0, int(length[1]) - int(prompt[1])) if length and prompt else 0


def may_be_mended(refusal: RequestRefusal) -> bool:
    """Return whether a retry with fewer fields or resent pictures may work."""
    too_long = _CONTEXT.search(refusal.answer)
    return "cache miss" in str(refusal).lower() or (refusal.status in (400, 422) and not too_long)


def to_judge_error(failure: TransientError | RequestRefusal, engine: str = "") -> JudgeError:
    """Return the error after the last try, with advice for the engine."""
    said = str(failure)
    if isinstance(failure, TransientError):
        asked = f" It was asked {failure.tries} times." if failure.tries > 1 else ""
        return ServerUnavailable(f"{said}{asked}") if failure.tries else BackendFailed(said)
    quote = f"It says: {quoted(said)}."
    if failure.status == 413:
        return RequestRefused(
            "The server does not take requests of this size. "
            "Choose a shorter memory window or fewer frames a call."
        )
    if _CONTEXT.search(failure.answer):
        longer = ENGINES.get(engine, UNKNOWN).longer
        return ContextFull(f"The conversation is longer than the server reads. {longer} {quote}")
    no_path = failure.status == 404 and re.search(r"(?i)not found\W*$|^\s*$", said)
    if no_path and "model" not in said.lower():
        return BackendRefused(GARBAGE)
    kind = RequestRefused if failure.status in (400, 422, 500) else BackendRefused
    return kind(f"The server refuses the request. {quote}")
