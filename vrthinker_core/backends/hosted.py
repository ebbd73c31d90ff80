"""Hosts that need a key: their addresses and key variables."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from vrthinker_core.backends.judge_name import Kind
from vrthinker_core.backends.server_errors import Secret
from vrthinker_core.errors import BadInput


@dataclass(frozen=True, slots=True)
class Host:
    """A host with an OpenAI-compatible API."""

    name: str
    url: str
    key: str  # Environment variable that holds the key
    keys_at: str  # Address of the page that gives out keys


HOSTS: dict[Kind, Host] = {
    "openai": Host(
        "OpenAI",
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        "https://platform.openai.com/api-keys",
    ),
    "gemini": Host(
        "Gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        "https://aistudio.google.com/apikey",
    ),
    "openrouter": Host(
        "OpenRouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        "https://openrouter.ai/keys",
    ),
    "hf-inference": Host(
        "Hugging Face",
        "https://router.huggingface.co/v1",
        "HF_TOKEN",
        "https://huggingface.co/settings/tokens, with the right to call Inference Providers",
    ),
}


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
