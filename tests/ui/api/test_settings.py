"""Settings in a call: every one by name, over gradio_client, plain HTTP and MCP, and one sentence for what cannot be."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from gradio_client import handle_file

from tests.ui.api.test_mcp import END, LOOK, call, endpoint, needs_mcp, with_session
from tests.ui.conftest import Clips, Serve, Server
from tests.ui.support.api import answers, check_refused, client, upload, uploaded
from tests.ui.support.saved_examples import PROMPT
from vrthinker_core.errors import BadInput
from vrthinker_core.types import Settings
from vrthinker_core.types.settings import SETTINGS
from vrthinker_core.ui.api_endpoints import NOT_AN_OBJECT, resolve_settings, settings_schema

ONE_TURN = {"max_turns": 1, "temperature": "0.5", "window": "all", "seed": None}

REFUSED = [
    ({"turns": 3}, "There is no setting 'turns'. There are protocol, window,"),
    ({"max_turns": 0}, '"Turns" must lie between 1 and 32; it is 0.'),
    ({"max_turns": 33}, '"Turns" must lie between 1 and 32; it is 33.'),
    ({"max_turns": "three"}, '"Turns" must be a whole number from 1 to 32; it is three.'),
    ({"max_turns": 2.5}, '"Turns" must be a whole number from 1 to 32; it is 2.5.'),
    ({"window": "some"}, '"Memory window" must be all, or a whole number from 0 up; it is some.'),
    ({"total": 97}, "an even number"),
    ({"frames_per_call": 13}, '"Frames per call" must lie between 1 and 12; it is 13.'),
    ('{"max_turns": 33}', '"Turns" must lie between 1 and 32; it is 33.'),
    ("max_turns=3", NOT_AN_OBJECT),
    ("[" * 10_000, NOT_AN_OBJECT),
    ("[3]", NOT_AN_OBJECT),
]
"""What JSON can hold and a schema lets through, with a part of the sentence that answers it."""

WRONG_TYPES: list[tuple[Any, str]] = [
    (7, NOT_AN_OBJECT),
    ([], NOT_AN_OBJECT),
    (True, NOT_AN_OBJECT),
    ({"max_turns": [3]}, '"Turns" must be a whole number from 1 to 32; it is [3].'),
    ({"max_turns": True}, '"Turns" must be a whole number from 1 to 32; it is True.'),
    ({"protocol": {"name": "paired"}}, '"Protocol" must be one of auto, paired, concat; it is'),
]
"""What does not fit the schema: MCP refuses it by itself."""


@pytest.fixture(scope="module")
def server(serve: Serve) -> Server:
    return serve([LOOK, END], protocol="paired")


def check_one_turn(run: dict[str, Any]) -> None:
    """The judge wanted to look again, and may not."""
    assert (run["stop"], len(run["turns"]), run["error"]) == ("turn limit", 1, "")
    assert "The judge was asked to answer now." in run["turns"][0]["remarks"]


# -- without a server ----------------------------------------------------------------------------------------------------


def test_there_is_a_key_for_every_setting() -> None:
    names = [field.name for field in fields(Settings)]
    assert list(settings_schema()["anyOf"][0]["properties"]) == names


def test_each_setting_is_described_by_the_table() -> None:
    described = settings_schema()["anyOf"][0]["properties"]
    for row in SETTINGS:
        for words in (row.label, row.help, row.range):
            assert words in described[row.name]["description"]
        assert described[row.name].get("default") == row.default


@pytest.mark.parametrize(
    "given", [None, "", {}, "{}", {"max_turns": None, "window": "own", "protocol": ""}]
)
def test_what_is_left_out_is_the_default(given: object) -> None:
    assert resolve_settings(given) == Settings()


@pytest.mark.parametrize(
    "given",
    [
        {"window": 2, "max_turns": 3, "temperature": 0.7, "fit": "letterbox"},
        {"window": "2", "max_turns": "3", "temperature": "0.7", "fit": "letterbox"},
        '{"window": 2.0, "max_turns": "3", "temperature": 0.7, "fit": "letterbox"}',
    ],
)
def test_numbers_come_as_numbers_or_as_text(given: object) -> None:
    chosen = Settings(window=2, max_turns=3, temperature=0.7, fit="letterbox")
    assert resolve_settings(given) == chosen


@pytest.mark.parametrize(
    "given", ['{"seed": NaN}', '{"seed": 1' + "0" * 5000 + "}", {"temperature": float("inf")}]
)
def test_numbers_that_are_none_are_refused(given: object) -> None:
    with pytest.raises(BadInput):
        resolve_settings(given)


# -- over gradio_client and plain HTTP -----------------------------------------------------------------------------------


def test_settings_reach_the_run_in_either_form_and_on_every_way(
    server: Server, clips: Clips
) -> None:
    call = {"prompt": PROMPT, "api_name": "/compare"}
    check_one_turn(client(server).predict(*map(handle_file, clips), settings=ONE_TURN, **call))
    for settings in (ONE_TURN, json.dumps(ONE_TURN)):
        check_one_turn(answers(server, *uploaded(server, clips), PROMPT, "", settings)[-1])


def test_the_only_turn_is_a_forced_answer(answering: Server, clips: Clips) -> None:
    videos = uploaded(answering, clips)
    for settings, forced in ((None, False), ({}, False), ({"max_turns": 1}, True)):
        last = answers(answering, *videos, PROMPT, "", settings)[-1]
        assert (last["stop"], len(last["turns"]), last["forced"]) == ("answered", 1, forced)


def test_bad_settings_are_answered_with_a_sentence(server: Server, clips: Clips) -> None:
    videos = uploaded(server, clips)
    for settings, words in (*REFUSED, *WRONG_TYPES):
        check_refused(answers(server, *videos, PROMPT, "", settings)[-1], words)


def test_a_protocol_may_allow_less_than_the_table(answering: Server, clips: Clips) -> None:
    settings = {"protocol": "concat", "frames_per_call": 12}
    last = answers(answering, *uploaded(answering, clips), PROMPT, "", settings)[-1]
    check_refused(last, '"Frames per call" must lie between 1 and 8; it is 12.')


def test_programs_can_find_out_which_settings_there_are(server: Server) -> None:
    info: Any = client(server).view_api(return_format="dict", print_info=False)
    shown = info["named_endpoints"]["/compare"]["parameters"][-1]
    assert (shown["parameter_has_default"], shown["parameter_default"]) == (True, None)
    assert shown["type"] == settings_schema()
    for row, found in zip(
        SETTINGS, client(server).predict(api_name="/health")["settings"], strict=True
    ):
        assert found == {
            "name": row.name,
            "label": row.label,
            "help": row.help,
            "range": row.range,
            "default": row.default,
        }


# -- over MCP ------------------------------------------------------------------------------------------------------------


@needs_mcp
def test_settings_reach_the_run_and_bad_ones_are_a_sentence_over_mcp(
    server: Server, clips: Clips
) -> None:
    first, second = (upload(server, clip) for clip in clips)
    given = {"video1": first, "video2": second, "prompt": PROMPT}
    for settings in (ONE_TURN, json.dumps(ONE_TURN)):
        check_one_turn(call(server, "compare", **given, settings=settings))
    for settings, words in (REFUSED[1], REFUSED[-1]):
        check_refused(call(server, "compare", **given, settings=settings), words)
    for settings, _ in WRONG_TYPES:
        sentence = validation_error(server, {**given, "settings": settings})
        assert sentence.startswith("Input validation error: ")
        assert "Traceback" not in sentence


def validation_error(server: Server, arguments: dict[str, Any]) -> str:
    """What MCP's own check of the arguments answers."""
    result = with_session(endpoint(server), lambda session: session.call_tool("compare", arguments))
    assert result.isError
    (content,) = result.content
    return str(content.text)


@needs_mcp
def test_the_tool_describes_every_setting(server: Server) -> None:
    tools = with_session(endpoint(server), lambda session: session.list_tools()).tools
    (schema,) = (
        tool.inputSchema["properties"]["settings"] for tool in tools if tool.name == "compare"
    )
    assert schema["anyOf"] == settings_schema()["anyOf"]
    assert "`health` lists" in schema["description"]
