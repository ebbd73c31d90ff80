"""The list of judges: how each kind is written, opened and offered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

JudgeGroup = Literal["demo", "local", "servers", "hosted"]

FACTORY = "vrthinker_core.backends.factory:open_"
SERVED = f"{FACTORY}served"


@dataclass(frozen=True, slots=True)
class Host:
    """A host with an OpenAI-compatible API."""

    name: str
    url: str
    key: str  # Environment variable that holds the key
    keys_at: str  # Address of the page that gives out keys
    first: tuple[str, ...]  # Patterns of models to offer first, a good one for little money before
    sees: str = ""  # Pattern of models that take pictures, where the list does not say so
    tries_key_at: str = ""  # Path that refuses a wrong key, where the list of models is public


@dataclass(frozen=True, slots=True)
class JudgeEntry:
    """A kind of judge. Another kind takes one entry, and what `opens` names."""

    form: str  # What to write behind --judge
    opens: str  # "MODULE:FUNCTION" from a JudgeName and a display name (or None) to a Backend
    group: JudgeGroup | None = None  # Where the page offers it; None: only --judge does
    options: tuple[str, ...] = ()  # What may stand behind "?"
    served: bool = False  # A server generates the replies, many at once
    host: Host | None = None


def _hosted(kind: str, host: Host) -> JudgeEntry:
    return JudgeEntry(f"{kind}:MODEL", SERVED, "hosted", ("protocol",), served=True, host=host)


OPENAI = Host(
    "OpenAI",
    "https://api.openai.com/v1",
    "OPENAI_API_KEY",
    "https://platform.openai.com/api-keys",
    (r"gpt-5-mini", r"gpt-4\.1-mini", r"gpt-4o-mini"),
    r"(gpt-(4o|4\.1|[5-9])|o[3-9])(?!.*(audio|realtime|transcribe|tts|search|image|codex))",
)
GEMINI = Host(
    "Gemini",
    "https://generativelanguage.googleapis.com/v1beta/openai",
    "GEMINI_API_KEY",
    "https://aistudio.google.com/apikey",
    (r"models/gemini-[\d.]+-flash", r"models/gemini-[\d.]+-flash-lite"),
    r"models/gemini-(?!.*(embedding|tts|image|audio|live|robotics))",
)
OPENROUTER = Host(
    "OpenRouter",
    "https://openrouter.ai/api/v1",
    "OPENROUTER_API_KEY",
    "https://openrouter.ai/keys",
    (r"qwen/qwen3-vl-.*instruct", r"qwen/qwen2\.5-vl-.*instruct", r"google/gemini-.*-flash"),
    tries_key_at="key",
)
HUGGING_FACE = Host(
    "Hugging Face",
    "https://router.huggingface.co/v1",
    "HF_TOKEN",
    "https://huggingface.co/settings/tokens, with the right to call Inference Providers",
    (r"Qwen/Qwen3-VL-.*Instruct", r"Qwen/Qwen2\.5-VL-.*Instruct"),
)

JUDGES: dict[str, JudgeEntry] = {
    "nano": JudgeEntry("nano (the demo judge)", f"{FACTORY}nano", "demo"),
    "hf": JudgeEntry(
        "hf:ID_OR_FOLDER (?quantize=4bit or 8bit, ?device=cuda, mps, xpu or cpu)",
        f"{FACTORY}model",
        "local",
        ("quantize", "device"),
    ),
    "server": JudgeEntry(
        "server:URL#MODEL (?protocol=paired or concat)", SERVED, None, ("protocol",), served=True
    ),
    "local": JudgeEntry(
        "local (a server on this machine)", SERVED, "servers", ("protocol",), served=True
    ),
    "openai": _hosted("openai", OPENAI),
    "gemini": _hosted("gemini", GEMINI),
    "openrouter": _hosted("openrouter", OPENROUTER),
    "hf-inference": _hosted("hf-inference", HUGGING_FACE),
    "scripted": JudgeEntry("scripted:FILE", f"{FACTORY}script"),
    "python": JudgeEntry("python:MODULE:ATTRIBUTE (a Backend of your own)", f"{FACTORY}own"),
}
"""Every kind by its name, in the order of `--help`."""


def host_of(kind: str) -> Host | None:
    """Return the host of a kind; None for any other kind."""
    return JUDGES[kind].host if kind in JUDGES else None
