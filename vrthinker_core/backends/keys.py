"""The keys of hosts and servers, from the environment."""

import os
from collections.abc import Sequence

from vrthinker_core.backends.judge_name import Host
from vrthinker_core.backends.server_errors import Secret
from vrthinker_core.errors import BadInput


def host_key(host: Host) -> Secret:
    """Return a host's key; raise `BadInput` if none is set."""
    secret = read_key((host.key,))
    if not secret.value:
        raise BadInput(
            f"{host.name} wants a key: get one at {host.keys_at}, and put it into {host.key}."
        )
    return secret


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
