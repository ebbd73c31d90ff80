"""`--help`: what stands in the source of an option stands on the screen."""

from __future__ import annotations

import typer
from typer.testing import CliRunner

from vrthinker_core.cli import app


def shown_help(command: str) -> str:
    """The help of a command, as one line without borders."""
    done = CliRunner().invoke(
        app, [command, "--help"], env={"COLUMNS": "400", "TERMINAL_WIDTH": "400"}, color=False
    )
    assert done.exit_code == 0, done.output
    return " ".join(done.output.replace("│", " ").split())


def test_the_help_of_every_option_is_shown_word_for_word() -> None:
    """Square brackets would be taken for markup, and their text left out."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert {"compare", "evaluate", "rank", "teacher", "train"} <= set(commands)
    missing = [
        (name, parameter.name, parameter.help)
        for name, command in commands.items()
        for shown in [shown_help(name)]
        for parameter in command.params
        if (text := getattr(parameter, "help", None)) and " ".join(text.split()) not in shown
    ]
    assert missing == []
