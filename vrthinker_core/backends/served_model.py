"""ServedModel and Server: a served model's card, protocol and context."""

from __future__ import annotations

import asyncio
import difflib
import logging
import os
import re
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
import openai
import stamina

from vrthinker_core.__about__ import asset
from vrthinker_core.backends.checkpoint_files import Marker, published_protocol, read_marker
from vrthinker_core.backends.engines import ENGINES, UNKNOWN, card_facts, engine_facts, engine_of
from vrthinker_core.backends.judge_name import SERVER_FORM, JudgeName, host_of, model_title
from vrthinker_core.backends.request_body import BY_ENGINE, EVERYWHERE, Feature, RequestForm
from vrthinker_core.backends.server_errors import (
    GARBAGE,
    RequestRefusal,
    Secret,
    TransientError,
    failure_of,
    redirected,
    refuse_redirect,
    to_judge_error,
)
from vrthinker_core.errors import BackendFailed, BackendRefused, BadInput
from vrthinker_core.types import ProtocolName
from vrthinker_core.types.messages import Completion, Retrying

T = TypeVar("T")


LOOPBACK = ("127.0.0.1", "localhost", "::1")
PROXIES = "a proxy variable (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY)"


def read_key(variables: Sequence[str] = ("VRTHINKER_API_KEY", "OPENAI_API_KEY")) -> Secret:
    """Return the key of the first variable that is set.

    The value is "" if none is set. Raises `BadInput`, without the key, if an HTTP header cannot
    hold the key.
    """
    name = next((each for each in variables if os.environ.get(each, "").strip()), variables[0])
    return checked_key(os.environ.get(name, ""), name)


def checked_key(key: str, name: str) -> Secret:
    """Return a key from the variable, or field, of this name."""
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise BadInput(
            f"The key in {name} holds a character that no key has, such as a curly quotation mark. "
            "Set it again."
        )
    return Secret(key, name)


@dataclass(frozen=True, slots=True)
class Patience:
    """Time limits for a server, in seconds, and the number of tries."""

    connect: float = 10.0
    # Between two tokens, and while nothing at all arrives: pictures may wait in the server's queue
    silence: float = 300.0
    counts: float = 5.0  # For token counts and the answer's end, once the reply is complete
    tries: int = 6
    # For all tries of one request together, up to its first token, even if other data arrives
    deadline: float = 420.0
    first_wait: float = 0.5  # Before the second try; doubled each time, plus up to as much jitter
    longest_wait: float = 20.0

    def wait_before(self, error: Exception) -> bool | float:
        """Return stamina's wait: seconds, True for the usual, False to stop."""
        if not isinstance(error, TransientError) or error.lasts:
            return False
        return error.wait is None or (error.wait < self.deadline and error.wait)

    async def ask(
        self,
        send: Callable[[], Awaitable[T]],
        secret: Secret,
        most: int | None = None,
        tell: Callable[[Retrying], None] = lambda _: None,
    ) -> T:
        """Call `send` and retry with back-off while a retry may help.

        There are at most `most` tries; `tell` hears of each after the first. A server that names
        the same cause twice is not asked again. Raises what `failure_of` returns for the last try.
        """
        loop, tries = asyncio.get_running_loop(), min(self.tries, most or self.tries)
        deadline, cause, busy = loop.time() + self.deadline, "", False
        async for attempt in stamina.retry_context(
            self.wait_before,
            attempts=tries,
            timeout=self.deadline,
            wait_initial=self.first_wait,
            wait_max=self.longest_wait,
            wait_jitter=self.first_wait,
        ):
            with attempt:
                if attempt.num > 1:
                    tell(Retrying(attempt.num, tries, busy))
                try:
                    # The last wait may end after the deadline
                    async with asyncio.timeout_at(max(deadline, loop.time() + self.first_wait)):
                        return await send()
                except Exception as error:  # noqa: BLE001 - see `failure_of`
                    failure = failure_of(error, secret)
                    if isinstance(failure, TransientError):
                        failure.tries, failure.lasts = attempt.num, cause == failure.cause != ""
                        cause, busy = failure.cause, failure.status in (429, 503)
                    raise failure from None
        raise AssertionError("the last attempt returns or raises")


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars a token, from a host's list."""

    read: float
    written: float
    reused: float

    def cost(self, completion: Completion) -> float | None:
        """Return the cost of a reply; None if its tokens are unknown."""
        prompt, written = completion.prompt_tokens, completion.new_tokens
        if prompt is None or written is None:
            return None
        reused = completion.reused_tokens or 0
        return self.read * (prompt - reused) + self.reused * reused + self.written * written


@dataclass(frozen=True, slots=True)
class ServedModel:
    """One model of a server."""

    id: str
    engine: str = ""  # A key of `BY_ENGINE`: an engine or a host; "" if unknown
    context_length: int | None = None
    marker: Marker = field(default_factory=Marker)  # Without protocols it is told the rules
    prices: Prices | None = None
    slots: int = UNKNOWN.slots  # Pairs to have in hand


@dataclass(slots=True)
class Server:
    """Shared state of a model's conversations; a refusal shrinks `form`."""

    address: JudgeName
    model: ServedModel
    secret: Secret
    patience: Patience
    form: RequestForm = field(init=False)
    accepted: bool = False  # It has taken a request in this form

    def __post_init__(self) -> None:
        model, refused = self.model, set[Feature]()
        # OpenAI's reasoning models take no temperature but 1 and return no probabilities
        if model.engine == "openai" and re.match(r"gpt-(?:[5-9]|\d\d)|o\d", model.id):
            refused |= {"temperature", "logprobs"}
        if not model.marker.video_items:
            refused.add("video")
        if not is_here(self.address):
            refused.add("bmp")
        features = BY_ENGINE.get(model.engine, EVERYWHERE) - refused
        self.form = RequestForm(model.id, not model.marker.protocols, features)


def make_client(address: JudgeName, secret: Secret, patience: Patience) -> openai.AsyncOpenAI:
    """Return an `openai` client for one event loop, also without a key.

    The client uses no proxy for a server on this machine, and sends frames to no other host than
    the address names. Only with OPENAI_API_KEY it names the organisation that belongs to it. It
    never retries: `Patience.ask` does, because its tries can be cancelled and counted. Raises
    `BadInput` if the client refuses the address or the proxy.
    """
    try:
        hooks: Any = {"response": [refuse_redirect]}
        client = openai.AsyncOpenAI(
            base_url=address.what,
            api_key=secret.value or "none",
            max_retries=0,
            timeout=openai.Timeout(patience.silence, connect=patience.connect),
            http_client=openai.DefaultAsyncHttpxClient(
                trust_env=not is_here(address), event_hooks=hooks
            ),
        )
    except ImportError as error:
        raise BadInput(f"The proxy that {PROXIES} names cannot be used: {error}") from None
    except Exception:  # noqa: BLE001 - the HTTP client's own errors for an address or a proxy
        raise BadInput(
            f"This is no address of a server, or {PROXIES} names no proxy. Write {SERVER_FORM}."
        ) from None
    if (address.kind, secret.variable) != ("openai", "OPENAI_API_KEY"):
        client.organization = client.project = None
    return client


def is_here(address: JudgeName) -> bool:
    """Return whether an address is on this machine."""
    return urlsplit(address.what).hostname in LOOPBACK


class Connection:
    """A client of a server, with an event loop in a thread of its own, until `close`."""

    def __init__(
        self, address: JudgeName, secret: Secret, patience: Patience, name: str = "list of models"
    ) -> None:
        self.address, self.secret, self.patience = address, secret, patience
        self.client = make_client(address, secret, patience)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine; cancelling the future cancels the coroutine."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        """Cancel all running tasks, close the client, and end the thread."""
        if self._loop.is_closed():
            return

        async def finish() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await self.client.close()
            await self._loop.shutdown_asyncgens()

        with suppress(CancelledError, TimeoutError):
            self.submit(finish()).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._thread.is_alive():
            self._loop.close()


async def find_server(connection: Connection) -> Server:
    """Find the server and the named model, or its only model.

    For a host, `what` is the address. Raises `BackendRefused` if the model is missing (with the
    list of models) or takes no pictures, `ServerUnavailable` if the server does not answer.
    """
    retries = logging.getLogger("stamina")
    if retries.level == logging.NOTSET:  # Otherwise it writes a line a retry to stderr
        retries.setLevel(logging.ERROR)

    cards, client = await _listed(connection), connection.client
    address = replace(connection.address, what=str(client.base_url).rstrip("/"))
    name = address.kind if host_of(address.kind) else engine_of(client, cards)
    card, engine = _find_card(address, cards, name), ENGINES.get(name, UNKNOWN)
    model = recognise(card, address.protocol, name)
    listed, said = card_facts(card), await engine_facts(client, name, model.id)
    if False in (said.sees, listed.sees):
        title = model_title(model.id)
        raise BackendRefused(
            f"The model {title} takes no pictures, as its server says. {engine.seeing}"
        )
    length = said.context_length or listed.context_length
    model = replace(model, context_length=length, slots=said.slots or engine.slots)
    return Server(address, model, connection.secret, connection.patience)


def vision_models(address: JudgeName, secret: Secret, patience: Patience) -> list[ServedModel]:
    """List a host's models that take pictures, those to offer first before.

    Raises `BackendRefused` if the host refuses the key, another `JudgeError` if the list fails.
    """
    host = host_of(address.kind)
    assert host is not None
    with closing(Connection(replace(address, what=host.url), secret, patience)) as connection:
        cards = connection.submit(_listed(connection)).result()
    seeing = re.compile(host.sees or r"(?!)")
    seen = [card for card in cards if card_facts(card).sees or seeing.match(str(card["id"]))]
    first = [re.compile(pattern) for pattern in host.first]

    def rank(model: ServedModel) -> tuple[int, str]:
        ranks = (place for place, each in enumerate(first) if each.fullmatch(model.id))
        return next(ranks, len(first)), model.id

    return sorted((recognise(card, None, address.kind) for card in seen), key=rank)


def _find_card(address: JudgeName, cards: list[dict[str, Any]], engine: str) -> Mapping[str, Any]:
    """Return the model's card from the server's list."""
    listed = [str(card["id"]) for card in cards]
    if not address.model and len(listed) != 1:
        none = "The server lists no model. Name one behind the address: URL#MODEL."
        raise BackendRefused(_choose(listed) if listed else none)
    wanted = address.model or listed[0]
    names = [wanted]
    if host_of(engine):  # Gemini puts "models/" before; a provider may stand behind
        names += [f"models/{wanted}", wanted.rpartition(":")[0]]
    elif engine == "ollama":
        names += [f"{wanted}:latest"]
    card = next((card for name in names for card in cards if card["id"] == name), {})
    if not card and cards and engine:
        raise BackendRefused(
            f"The server has no model {model_title(wanted)!r}. {_choose(listed, wanted)}"
        )
    return {**card, "id": wanted}  # Some servers list only a part of their models


def recognise(
    card: Mapping[str, Any], chosen: ProtocolName | None, engine: str = ""
) -> ServedModel:
    """Return a card's model; `chosen` comes before a published name's protocol."""
    prices = _prices(card) if engine == "openrouter" else None
    model = ServedModel(str(card["id"]), engine, prices=prices)
    named = (model.id, str(card.get("root") or ""))
    names = {part.lower() for name in named for part in (name, model_title(name))}
    if "nano" in names:  # The built-in judge, which needs a redirect of its own
        folder = asset("nano")
        return replace(model, marker=read_marker(folder, str(folder)))
    protocol = chosen or published_protocol(names)
    return replace(model, marker=Marker((protocol,))) if protocol else model


def _prices(card: Mapping[str, Any]) -> Prices | None:
    """Return OpenRouter's prices (dollars a token, as text), None if missing."""
    listed: Any = card.get("pricing")
    try:
        read, written = float(listed["prompt"]), float(listed["completion"])
        reused = float(listed.get("input_cache_read") or read)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    sound = all(0 <= each < 1 for each in (read, written, reused))
    return Prices(read, written, reused) if sound else None


async def _listed(connection: Connection) -> list[dict[str, Any]]:
    """Return what `list_models` returns; [] if a named model needs no list."""
    client, secret, named = connection.client, connection.secret, connection.address.model
    host = host_of(connection.address.kind)

    async def ask() -> list[dict[str, Any]]:
        if host and host.tries_key_at and secret.value:  # Where the list is public
            await client.get(host.tries_key_at, cast_to=httpx.Response)
        return await list_models(client)

    try:
        return await connection.patience.ask(ask, secret, most=3)
    except (TransientError, RequestRefusal) as failure:
        # `transformers serve` fails here before the first download
        if named and (failure.status >= 500 or failure.status in (404, 408, 409, 425, 429)):
            return []
        if failure.status == 404:
            raise BackendRefused(GARBAGE) from None
        raise to_judge_error(failure) from None


async def list_models(client: openai.AsyncOpenAI) -> list[dict[str, Any]]:
    """Return the list of models; a redirect gives the client a new address.

    Only the list of models survives a redirect: other requests lose their content. The new address
    is used only if the client would send the key there: to the same origin, or to https on the same
    host.
    """
    response = (await client.models.with_raw_response.list()).http_response
    if response.history:
        url = str(response.url).rstrip("/")
        if not url.endswith("/models") or "authorization" not in response.request.headers:
            raise redirected(response.history[0].url, response.url)
        client.base_url = url.removesuffix("/models")
    answer = response.json()
    cards = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(cards, list) or not all(
        isinstance(card, dict) and card.get("id") for card in cards
    ):
        raise BackendFailed(GARBAGE)
    return cards


def _choose(listed: list[str], wanted: str = "") -> str:
    """Return a sentence with the models most like `wanted`, or all."""
    shown = difflib.get_close_matches(wanted, listed, 8, 0.5) or listed[:8]
    more = f" and {len(listed) - len(shown)} more" if len(listed) > 8 else ""
    names = ", ".join(map(model_title, shown))
    return f"It has {names}{more}: name one of them (server:URL#MODEL)."
