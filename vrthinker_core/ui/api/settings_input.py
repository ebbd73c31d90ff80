"""Settings as a program gives them in a call: a JSON object by name, or that object as JSON text."""

import json
from typing import Any

from vrthinker_core.errors import BadInput
from vrthinker_core.types import Settings
from vrthinker_core.types.settings import SETTINGS, Setting, parse_settings

NOT_AN_OBJECT = 'The settings must be a JSON object, as in {"max_turns": 3}.'


def resolve_settings(given: object) -> Settings:
    """The settings that a program gave; the defaults for None and "". Raises BadInput."""
    if given is None or given == "":
        return Settings()
    try:
        settings = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        raise BadInput(NOT_AN_OBJECT) from None
    if not isinstance(settings, dict):
        raise BadInput(NOT_AN_OBJECT)
    return parse_settings(settings)


def settings_schema() -> dict[str, Any]:
    """The JSON schema of the parameter: each setting with its label, help and range, as they stand in `SETTINGS`.

    An unknown name fits the schema, so that it is answered with the names there are. Its value may be no object: Gradio's MCP
    server would upload every file of this machine that an object names.
    """
    by_name = {
        "type": "object",
        "properties": {row.name: _setting_schema(row) for row in SETTINGS},
        "additionalProperties": _any_of("string", "number", "null"),
    }
    return {"anyOf": [by_name, {"type": "string"}, {"type": "null"}]}


def _setting_schema(row: Setting) -> dict[str, Any]:
    """Any number fits, in the range or not, whole or not: `parse_settings` refuses it with a sentence that names the setting."""
    words = _any_of("boolean", "string", "null") if row.is_switch else _any_of("string", "null")
    kinds = words if row.number is None else _any_of("number", "string", "null")
    default = {} if row.default is None else {"default": row.default}
    return {**kinds, "description": f"{row.label}. {row.help} Range: {row.range}.", **default}


def _any_of(*kinds: str) -> dict[str, Any]:
    return {"anyOf": [{"type": kind} for kind in kinds]}
