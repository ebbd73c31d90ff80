"""What is known of a served model before it is asked: its card in the server's list, its protocol, its context."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import openai
import stamina

from vrthinker_core.__about__ import asset
from vrthinker_core.backends.base import Scope
from vrthinker_core.backends.judge_name import SERVER_FORM, JudgeName, model_title
from vrthinker_core.backends.local.checkpoint.checkpoint_files import published_protocol
from vrthinker_core.backends.local.checkpoint.marker import read_marker
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
from vrthinker_core.backends.server.request_body import BY_ENGINE, EVERYWHERE, RequestForm
from vrthinker_core.dialects.factory import redirects
from vrthinker_core.errors import BackendFailed, BackendRefused, BadInput
from vrthinker_core.types import ProtocolName

T = TypeVar("T")

LISTED = 8  # Models that a sentence names
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
class ServedModel:
    """One model of a server."""

    id: str
    engine: str = (
        ""  # "vllm", "sglang"; whatever else the list of models calls its owner says nothing
    )
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


@dataclass(slots=True)
class Server:
    """What all conversations with one served model share. `form` is replaced by a smaller one when the server refuses a field."""

    address: JudgeName
    model: ServedModel
    secret: Secret
    patience: Patience
    form: RequestForm = field(init=False)

    def __post_init__(self) -> None:
        features = BY_ENGINE.get(self.model.engine, EVERYWHERE) - (
            set() if self.model.video_items else {"video"}
        )
        self.form = RequestForm(self.model.id, not self.model.protocols, features)

    def client(self) -> openai.AsyncOpenAI:
        """A new client, for one event loop. It never tries again by itself: that is done where it can be cancelled and told."""
        return make_client(self.address, self.secret, self.patience)


def make_client(address: JudgeName, secret: Secret, patience: Patience) -> openai.AsyncOpenAI:
    """A client of `openai`, which wants a key even where a server wants none. Raises BadInput for an address that it refuses."""
    timeout = openai.Timeout(patience.silence, connect=patience.connect)
    try:
        return openai.AsyncOpenAI(
            base_url=address.what, api_key=secret.value or "none", max_retries=0, timeout=timeout
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


def find_server(address: JudgeName, secret: Secret, patience: Patience) -> Server:
    """The server with its model of that name, or its only one. Raises BackendRefused with the list, or ServerUnavailable."""
    quiet_retries()
    address, cards = _cards(address, secret, patience)
    return Server(address, _find_model(address, cards), secret, patience)


def _find_model(address: JudgeName, cards: list[dict[str, Any]]) -> ServedModel:
    listed = [str(card["id"]) for card in cards]
    if not address.model and len(listed) != 1:
        raise BackendRefused(
            _choose(listed)
            if listed
            else "The server lists no model. Name one behind the address: URL#MODEL."
        )
    card = next((card for card in cards if address.model in ("", card["id"])), None)
    if card is None:
        if any(map(_engine, cards)):
            raise BackendRefused(
                f"The server has no model {model_title(address.model)!r}. {_choose(listed)}"
            )
        card = {"id": address.model}  # some servers list only a part of what they serve, or nothing
    return recognise(card, address.protocol)


def recognise(card: Mapping[str, Any], chosen: ProtocolName | None) -> ServedModel:
    """A model from its card: the published checkpoints and the built-in judge are known by their names, `chosen` comes first."""
    length = card.get("max_model_len")
    model = ServedModel(
        str(card["id"]),
        _engine(card),
        length if isinstance(length, int) and not isinstance(length, bool) and length > 0 else None,
        (chosen,) if chosen else (),
    )
    names = {
        part.lower()
        for name in (model.id, str(card.get("root") or ""))
        for part in (name, model_title(name))
    }
    if "nano" in names:
        return _built_in(model)
    known = published_protocol(names)
    return model if model.protocols or known is None else replace(model, protocols=(known,))


def _engine(card: Mapping[str, Any]) -> str:
    """The engine that the card names as its owner; "" where it names none of those that are known."""
    owner = card.get("owned_by")
    return owner if isinstance(owner, str) and owner in BY_ENGINE else ""


def _built_in(model: ServedModel) -> ServedModel:
    """The built-in judge, which knows its own protocol's sentences alone and is made to answer by a redirect of its own."""
    folder = asset("nano")
    marker = read_marker(folder, str(folder))
    forced = redirects(marker.forced)
    known = replace(
        model, protocols=marker.protocols, forced_redirects=forced, video_items=marker.video_items
    )
    return replace(known, scope=marker.scope, built_in=True)


def _cards(
    address: JudgeName, secret: Secret, patience: Patience
) -> tuple[JudgeName, list[dict[str, Any]]]:
    """The server's list of models, empty where it has no such list, and the address that the list came from."""
    client = make_client(address, secret, patience)
    thread = LoopThread("list of models")
    try:
        url, cards = thread.submit(
            patience.ask(lambda: _list_models(client), secret, LIST_TRIES)
        ).result()
        return replace(address, what=url or address.what), cards
    except Passing as passing:
        if passing.answered and address.model:
            return address, []  # `transformers serve` fails here where nothing was ever downloaded
        raise unavailable(passing) from None
    except RequestRefusal as refusal:
        if address.model and (refusal.status == 404 or refusal.status >= 500):
            return address, []
        raise (
            BackendRefused(GARBAGE) if refusal.status == 404 else ending(refusal, secret, "")
        ) from None
    finally:
        thread.close(client.close())


async def _list_models(client: openai.AsyncOpenAI) -> tuple[str, list[dict[str, Any]]]:
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


def _choose(listed: list[str]) -> str:
    more = f" and {len(listed) - LISTED} more" if len(listed) > LISTED else ""
    return f"It has {', '.join(map(model_title, listed[:LISTED]))}{more}: name one behind the address, URL#MODEL."


async def list_models_sentence(client: openai.AsyncOpenAI | None, wanted: str) -> str:
    """That the server lists others than the model that is wanted, and which; "" where it lists that one, or nothing."""
    try:
        assert client is not None
        listed = [str(card["id"]) for card in (await _list_models(client))[1]]
    except Exception:  # noqa: BLE001 - whatever goes wrong here, the server has said something before
        return ""
    return (
        ""
        if wanted in listed or not listed
        else f"The server has no model {model_title(wanted)!r}. {_choose(listed)}"
    )
