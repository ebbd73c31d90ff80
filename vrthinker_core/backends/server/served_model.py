"""What is known of a served model before it is asked: its card in the server's list, its protocol, its context."""

import asyncio
import difflib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

import openai
import stamina

from vrthinker_core.__about__ import asset
from vrthinker_core.backends.base import Scope
from vrthinker_core.backends.judge_name import HOSTED, SERVER_FORM, JudgeName, model_title
from vrthinker_core.backends.local.checkpoint.checkpoint_files import published_protocol
from vrthinker_core.backends.local.checkpoint.marker import read_marker
from vrthinker_core.backends.server.engines import ENGINES, card_facts, engine_facts, engine_of
from vrthinker_core.backends.server.failures import (
    GARBAGE,
    Passing,
    RequestRefusal,
    Secret,
    ending,
    failure_of,
    redirect_refusal,
    unavailable,
)
from vrthinker_core.backends.server.loop_thread import LoopThread
from vrthinker_core.backends.server.request_body import RequestForm, known_features
from vrthinker_core.dialects.factory import redirects
from vrthinker_core.errors import BackendFailed, BackendRefused, BadInput
from vrthinker_core.types import ProtocolName
from vrthinker_core.types.messages import Completion

T = TypeVar("T")

LISTED = 8  # Models that a sentence names
LOOPBACK = ("127.0.0.1", "localhost", "::1")
PROXIES = "a proxy variable (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY)"
LIST_PATH = "/models"
LIST_TRIES = 3  # Times at most that a server is asked for its list of models


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server is waited for; all times in seconds."""

    connect: float = 10.0
    silence: float = 300.0  # Between two tokens, and while nothing at all arrives: many pictures wait in the server's queue
    counts: float = (
        5.0  # For the counts of tokens and the end of the answer, once the reply is whole
    )
    tries: int = 6
    deadline: float = (
        420.0  # For all tries of one request together, up to its first token, whatever else arrives
    )
    first_wait: float = 0.5  # Before the second try; doubled each time, and as much again by chance
    longest_wait: float = 20.0

    def wait_before(self, error: Exception) -> bool | float:
        """How long to wait before the next try, True for the usual time, False for no other try (a back-off hook of stamina)."""
        if not isinstance(error, Passing) or error.lasts:
            return False
        if error.wait is None:
            return True
        return error.wait if error.wait < self.deadline else False

    async def ask(
        self, send: Callable[[], Awaitable[T]], secret: Secret, most: int | None = None
    ) -> T:
        """What `send` gives. It is sent again, `most` times in all, with back-off, while that may help.

        A server that names the same cause twice is not asked again. Raises what `failure_of` makes of the last error.
        """
        loop = asyncio.get_running_loop()
        deadline, cause = loop.time() + self.deadline, ""
        async for attempt in stamina.retry_context(
            self.wait_before,
            attempts=min(self.tries, most or self.tries),
            timeout=self.deadline,
            wait_initial=self.first_wait,
            wait_max=self.longest_wait,
            wait_jitter=self.first_wait,
        ):
            with attempt:
                try:
                    async with asyncio.timeout_at(
                        max(deadline, loop.time() + self.first_wait)
                    ):  # the last wait may outlast it
                        return await send()
                except Exception as error:  # noqa: BLE001 - see `failure_of`
                    failure = failure_of(error, secret)
                    if isinstance(failure, Passing):
                        failure.tries, failure.lasts = attempt.num, cause == failure.cause != ""
                        cause = failure.cause
                    raise failure from None
        raise AssertionError("the last attempt returns or raises")


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars a token, as a host lists them."""

    read: float
    written: float
    reused: float

    def cost(self, completion: Completion) -> float | None:
        """What a reply costs; None if its tokens are not known."""
        prompt, written = completion.prompt_tokens, completion.new_tokens
        if prompt is None or written is None:
            return None
        reused = completion.reused_tokens or 0
        return self.read * (prompt - reused) + self.reused * reused + self.written * written


@dataclass(frozen=True, slots=True)
class ServedModel:
    """One model of a server."""

    id: str
    engine: str = ""  # A key of `BY_ENGINE`: an engine, or a host; "" for an unknown one
    context_length: int | None = None
    protocols: tuple[
        ProtocolName, ...
    ] = ()  # Those it was trained for; none for a model that is told the rules in words
    forced_redirects: Mapping[tuple[str, str], tuple[str, str]] = field(
        default_factory=dict
    )  # See `LoadedModel`
    video_items: bool = True  # See `Marker.video_items`
    scope: Scope = "any"  # See `Marker.scope`
    built_in: bool = False  # It is the built-in judge
    prices: Prices | None = None


@dataclass(slots=True)
class Server:
    """What all conversations with one served model share. `form` is replaced by a smaller one when the server refuses a field."""

    address: JudgeName
    model: ServedModel
    secret: Secret
    patience: Patience
    form: RequestForm = field(init=False)

    def __post_init__(self) -> None:
        features = known_features(self.model.engine, self.model.id)
        features -= set() if self.model.video_items else {"video"}
        self.form = RequestForm(self.model.id, not self.model.protocols, features)

    @property
    def root(self) -> str:
        """Where an engine answers outside the OpenAI API."""
        return server_root(self.address)

    def client(self) -> openai.AsyncOpenAI:
        """A new client, for one event loop. It never tries again by itself: that is done where it can be cancelled and told."""
        return make_client(self.address, self.secret, self.patience)


def make_client(address: JudgeName, secret: Secret, patience: Patience) -> openai.AsyncOpenAI:
    """A client of `openai`, which wants a key even where a server wants none. Raises BadInput for an address that it refuses.

    It asks no proxy for a server on this machine.
    """
    timeout = openai.Timeout(patience.silence, connect=patience.connect)
    here = urlsplit(address.what).hostname in LOOPBACK
    try:
        return openai.AsyncOpenAI(
            base_url=address.what,
            api_key=secret.value or "none",
            max_retries=0,
            timeout=timeout,
            http_client=openai.DefaultAsyncHttpxClient(trust_env=False) if here else None,
        )
    except ImportError as error:
        raise BadInput(f"The proxy that {PROXIES} names cannot be used: {error}") from None
    except Exception:  # noqa: BLE001 - its HTTP client has errors of its own for addresses, that of a proxy among them
        raise BadInput(
            f"This is no address of a server, or {PROXIES} names no proxy. Write {SERVER_FORM}."
        ) from None


def quiet_retries() -> None:
    """stamina would write a line of its own to standard error for each wait, where nobody has asked for its log."""
    log = logging.getLogger("stamina")
    if log.level == logging.NOTSET:
        log.setLevel(logging.ERROR)


def server_root(address: JudgeName) -> str:
    """The address of a server without the path of the OpenAI API."""
    return address.what.rstrip("/").removesuffix("/v1")


def find_server(address: JudgeName, secret: Secret, patience: Patience) -> Server:
    """The server with its model of that name, or its only one. Of a host, `what` is the address.

    Raises BackendRefused with the list, or if the model takes no pictures; ServerUnavailable.
    """
    quiet_retries()
    client = make_client(address, secret, patience)
    thread = LoopThread("list of models")
    try:
        return thread.submit(_find(client, address, secret, patience)).result()
    finally:
        thread.close(client.close())


async def _find(
    client: openai.AsyncOpenAI, address: JudgeName, secret: Secret, patience: Patience
) -> Server:
    address, cards = await _cards(client, address, secret, patience)
    root = server_root(address)
    name = address.kind if address.kind in HOSTED else engine_of(root, cards)
    card = _find_card(address, cards, name)
    model = recognise(card, address.protocol, name)
    listed, said = card_facts(card), await engine_facts(client, root, name, model.id)
    if False in (said.sees, listed.sees):
        advice = ENGINES[name].seeing if name in ENGINES else "Choose a model that does."
        raise BackendRefused(
            f"The model {model_title(model.id)} takes no pictures, as its server says. {advice}"
        )
    length = said.context_length or listed.context_length
    return Server(address, replace(model, context_length=length), secret, patience)


def _find_card(address: JudgeName, cards: list[dict[str, Any]], engine: str) -> Mapping[str, Any]:
    """What the list says of the model. A host's list may have "models/" before its name, and no provider behind it."""
    listed = [str(card["id"]) for card in cards]
    if not address.model and len(listed) != 1:
        raise BackendRefused(
            _choose(listed)
            if listed
            else "The server lists no model. Name one behind the address: URL#MODEL."
        )
    wanted = address.model or listed[0]
    names = [wanted]
    if engine in HOSTED:
        names += [f"models/{wanted}", wanted.rpartition(":")[0]]
    card = next((card for name in names for card in cards if card["id"] == name), None)
    if card is None and cards and engine:
        raise BackendRefused(
            f"The server has no model {model_title(wanted)!r}. {_choose(listed, wanted)}"
        )
    return {**(card or {}), "id": wanted}  # some servers list a part of what they serve, or nothing


def recognise(
    card: Mapping[str, Any], chosen: ProtocolName | None, engine: str = ""
) -> ServedModel:
    """A model from its card: the published checkpoints and the built-in judge are known by their names, `chosen` comes first."""
    prices = _prices(card) if engine == "openrouter" else None
    model = ServedModel(str(card["id"]), engine, None, (chosen,) if chosen else (), prices=prices)
    names = {
        part.lower()
        for name in (model.id, str(card.get("root") or ""))
        for part in (name, model_title(name))
    }
    if "nano" in names:
        return _built_in(model)
    known = published_protocol(names)
    return model if model.protocols or known is None else replace(model, protocols=(known,))


def _prices(card: Mapping[str, Any]) -> Prices | None:
    """The prices in OpenRouter's form, US dollars a token as texts; None for a card without them."""
    listed = card.get("pricing")
    try:
        read, written = float(listed["prompt"]), float(listed["completion"])  # type: ignore[index]
        reused = float(listed.get("input_cache_read") or read)  # type: ignore[union-attr]
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    prices = Prices(read, written, reused)
    return prices if all(0 <= each < 1 for each in (read, written, reused)) else None


def _built_in(model: ServedModel) -> ServedModel:
    """The built-in judge, which knows its own protocol's sentences alone and is made to answer by a redirect of its own."""
    folder = asset("nano")
    marker = read_marker(folder, str(folder))
    forced = redirects(marker.forced)
    known = replace(
        model, protocols=marker.protocols, forced_redirects=forced, video_items=marker.video_items
    )
    return replace(known, scope=marker.scope, built_in=True)


async def _cards(
    client: openai.AsyncOpenAI, address: JudgeName, secret: Secret, patience: Patience
) -> tuple[JudgeName, list[dict[str, Any]]]:
    """The server's list of models, empty where it has no such list, and the address that the list came from."""
    try:
        url, cards = await patience.ask(lambda: list_models(client), secret, LIST_TRIES)
        return replace(address, what=url or address.what), cards
    except Passing as passing:
        if passing.answered and address.model:
            return address, []  # `transformers serve` fails here where nothing was ever downloaded
        raise unavailable(passing) from None
    except RequestRefusal as refusal:
        if address.model and (refusal.status == 404 or refusal.status >= 500):
            return address, []
        raise (
            BackendRefused(GARBAGE) if refusal.status == 404 else ending(refusal, secret)
        ) from None


async def list_models(client: openai.AsyncOpenAI) -> tuple[str, list[dict[str, Any]]]:
    """The list, and the address that a redirect led to: only a list follows one unharmed. "" for the address that was asked.

    It is taken on where the client would send the key along: to the same origin, or to https on the same host.
    """
    response = (await client.models.with_raw_response.list()).http_response
    url = str(response.url).rstrip("/")
    taken_on = (
        bool(response.history)
        and url.endswith(LIST_PATH)
        and "authorization" in response.request.headers
    )
    if not taken_on and (redirected := redirect_refusal(response)):
        raise redirected
    return url.removesuffix(LIST_PATH) if taken_on else "", _read_cards(response.json())


def _read_cards(answer: Any) -> list[dict[str, Any]]:
    """Raises BackendFailed for what is no list of models."""
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or not all(
        isinstance(card, dict) and card.get("id") for card in data
    ):
        raise BackendFailed(GARBAGE)
    return data


def _choose(listed: list[str], wanted: str = "") -> str:
    """Which models to choose from: those whose names are like the wanted one, or all."""
    shown = difflib.get_close_matches(wanted, listed, LISTED, 0.5) or listed[:LISTED]
    more = f" and {len(listed) - len(shown)} more" if len(listed) > LISTED else ""
    names = ", ".join(map(model_title, shown))
    return f"It has {names}{more}: name one of them (server:URL#MODEL)."
