"""The settings as options of the command line, made from the one table in `types/settings.py`."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from vrthinker_core.errors import BadInput
from vrthinker_core.types.settings import SETTINGS, Setting, Settings


def with_setting_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each row of `SETTINGS` in the place of its parameter `settings`."""

    @functools.wraps(command)
    def with_options(**values: Any) -> None:
        chosen = {row.name: values.pop(row.name) for row in SETTINGS}
        command(settings=_parse(chosen), **values)

    hints = get_type_hints(command, include_extras=True)
    own = [
        p.replace(annotation=hints[p.name])
        for p in inspect.signature(command).parameters.values()
        if p.name != "settings"
    ]
    parameters = [*own, *map(_option, SETTINGS)]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {
        parameter.name: parameter.annotation for parameter in parameters
    }
    return with_options


def _parse(chosen: dict[str, str | bool | None]) -> Settings:
    values: dict[str, Any] = {}
    for row in SETTINGS:
        try:
            values[row.name] = row.parse(chosen[row.name])
        except BadInput as bad:
            raise BadInput(f"{_flag(row)}: {bad}") from None
    return Settings(**values)


def _option(row: Setting) -> inspect.Parameter:
    if row.is_switch:
        switch = Annotated[bool, typer.Option(_flag(row), help=row.help, show_default=False)]
        return inspect.Parameter(
            row.name, inspect.Parameter.KEYWORD_ONLY, default=row.default == "on", annotation=switch
        )
    default = "the protocol's own" if row.default is None else row.default
    only = f" Only in {row.protocol}." if row.protocol else ""
    option = typer.Option(
        _flag(row), help=f"{row.help}{only} ({row.range}; default: {default})", show_default=False
    )
    kind = Annotated[str | None, option]
    return inspect.Parameter(
        row.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind
    )


def _flag(row: Setting) -> str:
    return f"--{row.name.replace('_', '-')}"
