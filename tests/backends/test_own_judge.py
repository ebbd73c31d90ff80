"""A judge of one's own: `python:MODULE:ATTRIBUTE` imports it, and whatever is wrong with it is one sentence."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from vrthinker_core import BadInput, VideoPair, compare, open_backend
from vrthinker_core.backends.judge_name import judge_title
from vrthinker_core.cli import main
from vrthinker_core.errors import explain

SOURCE = """
import os
from collections.abc import Sequence
from vrthinker_core import Frame, Message, ScriptedBackend

seen: list[Frame] = []

def reply(messages: Sequence[Message]) -> str:
    seen.extend(messages[-1].frames)
    return "<Answer>TA=0, MQ=0, VQ=2, OA=1</Answer>"

judge = ScriptedBackend(reply, name="mine")
broken = ScriptedBackend(lambda messages: messages[9].text, name="broken")

class Made(ScriptedBackend):
    def __init__(self) -> None:
        super().__init__(reply, name="made")

def make() -> ScriptedBackend: return judge
def fail() -> None: os.stat("/no/such/place")
def leave() -> None: raise SystemExit(0)
class Half: name, notes = "half", ()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The current folder, which has a module; no import outlives it."""
    (tmp_path / "vrt_mine.py").write_text(SOURCE)
    (tmp_path / "vrt_torn.py").write_text("import vrt_absent")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("vrt_mine", None)


@pytest.mark.parametrize(
    ("attribute", "name"), [("judge", "mine"), ("Made", "made"), ("make", "mine")]
)
def test_an_instance_a_class_or_a_function_gives_the_judge(attribute: str, name: str) -> None:
    choice = f"python:vrt_mine:{attribute}"
    assert (open_backend(choice).name, judge_title(choice)) == (name, f"vrt_mine.{attribute}")


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        ("vrt_mine", "Write python:MODULE:ATTRIBUTE"),
        ("./vrt_mine.py:judge", "Write python:MODULE:ATTRIBUTE"),
        ("vrt_missing:judge", "ModuleNotFoundError: No module named 'vrt_missing'."),
        ("vrt_torn:judge", "ModuleNotFoundError: No module named 'vrt_absent'."),
        ("vrt_mine:jugde", "has no attribute 'jugde'."),
        ("vrt_mine:fail", "FileNotFoundError: No such file or directory."),
        ("vrt_mine:leave", "SystemExit: 0."),
        ("vrt_mine:seen", "is no Backend: it has no name, "),
        ("vrt_mine:Half", "it has no protocols, follows_instructions, scope, open_conversation."),
    ],
)
def test_what_is_no_judge_is_one_sentence_and_its_traceback_is_logged(
    choice: str, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(BadInput) as caught:
        open_backend(f"python:{choice}")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    unknown = caught.value.__cause__
    assert [each.exc_info and each.exc_info[1] for each in caplog.records] == [unknown] * bool(
        unknown
    )


@pytest.mark.parametrize(
    "secret",
    [
        "/home/anna/my secret dir/x", "'/home/anna/my secret dir/x'", "https://u:pw@host/v1", "C:\\Users\\anna", "sk-123",
        "Bearer abc", "anna@host", "file:///home/anna",
    ],
)  # fmt: skip
def test_no_path_address_or_key_of_an_error_is_shown(secret: str) -> None:
    told = explain("The judge failed", ValueError(f"no way to {secret} from here"))
    assert not re.search("anna|pw|123|abc", told)
    assert told.startswith("The judge failed: ValueError: no way to …")


def test_a_backend_with_wrong_parts_is_refused_before_the_run(pair: VideoPair) -> None:
    for odd in ({"name": 5}, {"notes": "text"}, {"protocols": "paired"}, {"scope": "all"}):
        right = {"name": "a", "protocols": (), "notes": (), "scope": "any"}
        judge = SimpleNamespace(**right | {"follows_instructions": True} | odd)
        with pytest.raises(BadInput, match=rf"is no Backend: wrong {next(iter(odd))}\.$"):
            compare(pair, judge)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="int is no Backend"):
        compare(pair, 5)  # type: ignore[arg-type]


def command(*words: str) -> object:
    """The exit status of a command in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["vrthinker", *words])
        with pytest.raises(SystemExit) as ended:
            main()
    return ended.value.code


def test_the_command_line_takes_it_and_shows_no_traceback(
    clips: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # As in a process of its own
    compare = ["compare", *map(str, clips), "--prompt", "A red ball.", "--json", "--judge"]
    assert command(*compare, "python:vrt_mine:judge") == 0
    assert json.loads(capsys.readouterr().out) == {"TA": 0, "MQ": 0, "VQ": 2, "OA": 1}
    assert command(*compare, "python:vrt_mine:broken") == 3
    assert "The judge failed: IndexError: " in (said := capsys.readouterr().err)
    assert "Traceback" not in said
    assert (
        command(
            "teacher",
            "--data",
            "drawn:1",
            "--pairs",
            "1",
            "--out",
            "taught",
            "--judge",
            "python:vrt_mine:broken",
        )
        == 2
    )
    assert "The judge failed: IndexError: " in (said := capsys.readouterr().err)
    assert "Traceback" not in said
    for frame in sys.modules["vrt_mine"].seen:
        assert frame.array.shape == (frame.height, frame.width, 3)
        assert np.array_equal(frame.array, np.asarray(frame.image))
