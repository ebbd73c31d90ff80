"""Where a served judge is: `URL#MODEL?protocol=NAME` read into an address, and the key from the environment."""

import os
import re
from dataclasses import dataclass
from typing import cast, get_args
from urllib.parse import parse_qsl, urlsplit

from vrthinker_core.errors import BadInput
from vrthinker_core.types import ProtocolName

KEY_VARIABLES = ("VRTHINKER_API_KEY", "OPENAI_API_KEY")  # The first one that is set holds the key

FORM = "server:URL#MODEL, for example server:http://localhost:8000/v1#qunwang13/vrthinker"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """An OpenAI-compatible address and one of its models."""

    url: str
    model: str = ""  # "" for the only one that the server has
    protocol: ProtocolName | None = None  # What the person says that the model was trained for


def parse_address(text: str) -> ServerAddress:
    """Read `URL#MODEL?protocol=NAME`; all but the URL may be left out. Raises BadInput, whose sentence holds no secret."""
    url, names_model, rest = text.partition("#")
    model, _, query = rest.partition("?")
    if not names_model:
        url, _, query = url.partition("?")
    if "@" in url:
        raise BadInput(
            f"The address of a server must not hold a user or a password. Put the key into {KEY_VARIABLES[0]}."
        )
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise BadInput(f"This is no address of a server. Write {FORM}.")
    if parts.query:
        raise BadInput(
            f"The address of a server must not hold a query: options stand behind the model, {FORM}?protocol=paired."
        )
    return ServerAddress(url.rstrip("/"), model.strip(), _protocol(query))


def _protocol(query: str) -> ProtocolName | None:
    options = parse_qsl(query, keep_blank_values=True)
    if not query:
        return None
    known = get_args(ProtocolName)
    if len(options) != 1 or options[0][0] != "protocol" or options[0][1] not in known:
        raise BadInput(
            f"Behind the address or its model only ?protocol={known[0]} or ?protocol={known[1]} may stand."
        )
    return cast(ProtocolName, options[0][1])


def display_name(text: str) -> str:
    """Display name of a served judge that is not open yet: its model, else the host. Never a user, a password or a path."""
    url, _, rest = text.partition("#")
    model = rest.partition("?")[0].strip()
    return (
        model_title(model)
        if model
        else re.sub(r"^.*://|^.*@|[/?].*$", "", url.rpartition("@")[2]) or "server"
    )


def model_title(model: str) -> str:
    """Display name of a model: its id, or the last part where the id is a path of the server's own machine."""
    return model.rstrip("/").rpartition("/")[2] if model.startswith(("/", ".", "~")) else model


def key_variable() -> str:
    """The variable that holds the key, or that one may be put into."""
    return next(
        (name for name in KEY_VARIABLES if os.environ.get(name, "").strip()), KEY_VARIABLES[0]
    )


def api_key() -> str:
    """The key from the environment, "" for none. Raises BadInput, without the key, for one that no request can hold."""
    name = key_variable()
    key = os.environ.get(name, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise BadInput(
            f"The key in {name} holds a character that no key has, such as a quotation mark of a text: set it anew."
        )
    return key
