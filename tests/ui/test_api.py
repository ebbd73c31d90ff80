"""The endpoints as programs and the README use them, the form, and what may be named as a file."""

import json
import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import quote

import pytest
from gradio_client import handle_file
from gradio_client.utils import python_type_to_json_schema
from hypothesis import given, strategies as st

from tests.support.waiting import PATIENCE_S, until
from tests.test_votes import VOTE
from tests.ui.conftest import ROOT, Clips, Serve, Server, write_script
from tests.ui.support import api as calls
from tests.ui.support.api import answers, check_refused, file, files, upload
from tests.ui.support.handmade_runs import both_orders, telling_probabilities
from tests.ui.support.saved_examples import LABELS, PROMPT, ask
from vrthinker_core import __version__
from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import make_protocol, with_defaults
from vrthinker_core.protocols.factory import chosen_protocol
from vrthinker_core.types import Settings
from vrthinker_core.types.settings import OWN, PAGE_SETTINGS, Setting, parse_settings
from vrthinker_core.ui import api
from vrthinker_core.ui.api import NOT_AN_OBJECT, resolve_settings, settings_schema
from vrthinker_core.ui.layout import OWN_NAME, choices, default_value, form_values, help_text
from vrthinker_core.ui.queue import NOT_UPLOADED
from vrthinker_core.ui.view import RunView

LOOK = ask(10, 60, 200)
END = f"<Snapshot>Steady.</Snapshot><Think>Vidéo 1 is steadier.</Think>{LABELS}"
SECOND = "<Answer>TA=2, MQ=2, VQ=2, OA=2</Answer>"
VERDICT = {"TA": 1, "MQ": 0, "VQ": 2, "OA": 1}
ONE_TURN = {"max_turns": 1, "temperature": "0.5", "window": "all", "seed": None}


@pytest.fixture(scope="module")
def server(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """Two judges with different verdicts, and one that cannot be opened."""
    folder = tmp_path_factory.mktemp("judges")
    second = write_script(folder / "second.jsonl", [SECOND], protocol="paired")
    return serve([LOOK, END], "--judge", second, "--judge", f"hf:{folder}/missing", pause=0.02)


def check_run(items: list[dict[str, Any]], prompt: str = PROMPT) -> None:
    assert len(items) > 2, "no item came before the last one"
    assert all(item["stop"] is None for item in items if item != items[-1])
    counts = [len(item["turns"]) for item in items]
    assert counts == sorted(counts)
    last = items[-1]
    assert (last["stop"], last["labels"], last["error"]) == ("answered", VERDICT, "")
    assert (last["judge"], last["protocol"], last["prompt"]) == ("script", "paired", prompt)
    first, second = last["turns"]
    assert first["requested"] == [10, 60]
    assert first["remarks"] == ["1 request ignored, no such frame: 200."]
    read = second["snapshot"], second["think"], second["text"]
    assert read == ("Steady.", "Vidéo 1 is steadier.", END)
    shown = [(frame["video"], frame["number"], frame["index"]) for frame in second["frames"]]
    assert sorted(shown) == [(1, "10", 3), (1, "60", 22), (2, "10", 2), (2, "60", 14)]
    assert "jpeg" not in json.dumps(items)


def check_one_turn(run: dict[str, Any]) -> None:
    """The judge wanted to look again, and may not."""
    assert (run["stop"], len(run["turns"]), run["error"]) == ("turn limit", 1, "")
    assert "The judge was asked to answer now." in run["turns"][0]["remarks"]


def test_a_run_through_gradio_client_and_through_plain_http(server: Server, clips: Clips) -> None:
    told = {"prompt": PROMPT, "api_name": "/compare"}
    job = calls.client(server).submit(*map(handle_file, clips), **told)
    check_run(list(job))
    check_run(job.outputs())
    check_run(answers(server, *calls.uploaded(server, clips), PROMPT))
    second = answers(server, *calls.uploaded(server, clips), PROMPT, "second")[-1]
    assert (second["judge"], second["labels"]) == ("second", dict.fromkeys(VERDICT, 2))
    program = calls.client(server)
    check_one_turn(program.predict(*map(handle_file, clips), settings=ONE_TURN, **told))
    for settings in (ONE_TURN, json.dumps(ONE_TURN)):
        check_one_turn(answers(server, *calls.uploaded(server, clips), PROMPT, "", settings)[-1])


def test_runs_of_several_clients_never_mix_and_leave_nothing(server: Server, clips: Clips) -> None:
    """Nor do two calls of one client at the same time."""
    videos, program = calls.uploaded(server, clips), calls.client(server)
    (records,) = server.folder.glob("vr-thinker-page-*/records")
    before = {*records.iterdir()}  # the page of an earlier test keeps its run
    prompts = [f"Prompt number {number}." for number in range(4)]
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda prompt: answers(server, *videos, prompt), prompts[:2])
        told = [(*map(handle_file, clips), prompt) for prompt in prompts[2:]]
        jobs = [program.submit(*values, api_name="/compare") for values in told]
    for prompt, items in zip(prompts, [*found, *map(list, jobs)], strict=True):
        check_run(items, prompt)
    until(lambda: before.issuperset(records.iterdir()))


def test_bad_input_is_a_sentence(server: Server, clips: Clips, tmp_path: Path) -> None:
    (words_only := tmp_path / "words.mp4").write_text("no video at all\n" * 9)
    one, two, text = calls.uploaded(server, (*clips, words_only))
    concat = {"protocol": "concat", "frames_per_call": 12}
    for values, sentence in (
        ((one, two, "  "), "prompt is empty"),
        ((one, two, 7), "prompt must be a text"),
        ((one, two, "word " * 9000), "characters"),
        ((one, text, PROMPT), "Video 2: words.mp4 is a text file"),
        ((one, two, PROMPT, "nobody"), "There is no judge 'nobody' here. Choose script, "),
        ((one, two, PROMPT, "missing"), "There is no folder missing."),
        ((one, two, PROMPT, "python:os:abort"), "There is no judge 'python:os:abort' here."),
        ((one, two, PROMPT, "", concat), '"Frames per call" must lie between 1 and 8; it is 12.'),
    ):
        check_refused(answers(server, *values)[-1], sentence)


def test_only_these_endpoints_are_offered_and_their_answers_described(server: Server) -> None:
    info: Any = calls.client(server).view_api(return_format="dict", print_info=False)
    found = info["named_endpoints"]
    assert (list(found), info["unnamed_endpoints"]) == (["/compare", "/health"], {})
    taken = found["/compare"]["parameters"]
    names = [value["parameter_name"] for value in taken]
    assert names == ["video1", "video2", "prompt", "judge", "settings"]
    assert (taken[-1]["parameter_default"], taken[-1]["type"]) == (None, settings_schema())
    for name, shape in (("/compare", api.RunJson), ("/health", api.HealthJson)):
        (value,) = found[name]["returns"]
        assert value["type"] == python_type_to_json_schema(shape)
        assert value["python_type"]["type"].startswith("dict(status: str, ")


def test_health(server: Server) -> None:
    found = partial(calls.client(server).predict, api_name="/health")
    until(lambda: all(judge["status"] != "loading" for judge in found()["judges"]))
    names, gone = ("name", "label", "help", "range", "default"), "There is no folder missing."
    judges = ("script", "ready", ""), ("second", "ready", ""), ("missing", "no judge", gone)
    assert found() == {
        **{"status": "ready", "judge": "script", "protocol": "paired", "error": ""},
        **{"notes": ["A script replies, not a model."], "judging": 0, "waiting": 0},
        "judges": [dict(zip(("name", "status", "error"), told, strict=True)) for told in judges],
        "settings": [{name: getattr(row, name) for name in names} for row in PAGE_SETTINGS],
        "version": __version__,
    }


def test_a_browser_cannot_choose_or_send_what_is_not_offered(server: Server, clips: Clips) -> None:
    """And what is shown stays as it is."""
    files, sent = calls.uploaded(server, clips), [dict[str, object](judge="oracle")]
    sent += [{"temperature": each} for each in ("hot", ["0.7"], {"a": 1}, True, 1e300)]
    for more in sent:
        event, inputs = calls.compare_inputs(server)
        form = {**dict(zip(("first", "second"), files, strict=True)), "prompt": PROMPT, **more}
        told = calls.act(server, event, [form.get(part["elem_id"]) for part in inputs])["data"]
        said = "There is no judge 'oracle'" if "judge" in more else 'The setting "Temperature" must'
        assert told[0].startswith("Not started.")
        assert next(iter(told[1]["faults"].values())).startswith(said)
        assert "ending" not in told[1]
    page = calls.config(server)
    names = {part["id"]: part["props"].get("elem_id") for part in page["components"]}
    events = [
        each for each in page["dependencies"] if [*map(names.get, each["inputs"])] == ["judge"]
    ]
    (chosen,) = (calls.act(server, event["id"], ["oracle"]) for event in events)
    assert ("error" in chosen, "oracle" in json.dumps(chosen)) == (False, False)
    text = json.dumps(page)
    assert all(name in text for name in ("script", "second", "missing"))
    assert ("/missing" in text, ".jsonl" in text) == (False, False), "no path of a judge"


def test_a_live_run_names_each_frame_once(server: Server, clips: Clips) -> None:
    """Updates tell what is new: the page gets no turn again."""
    event, inputs = calls.compare_inputs(server)
    videos = dict(zip(("first", "second"), calls.uploaded(server, clips), strict=True))
    form = {**videos, "prompt": PROMPT}
    calls.act(server, event, [form.get(part["elem_id"]) for part in inputs], "a-page")
    follow, _ = calls.find_event(server, "buttons", "submit")
    told = map(json.dumps, calls.updates(server, follow, [], "a-page"))
    live = "".join(each for each in told if "process_generating" in each)
    assert len(re.findall(r"frames/\w+/\w+\.jpg", live)) == 2 * (4 + 2)
    assert len(live) < 30_000


def test_a_comparison_takes_videos_prompt_judge_and_every_setting(server: Server) -> None:
    parts = {part.get("elem_id"): part for part in calls.compare_inputs(server)[1]}
    names = ["first", "second", "prompt", "judge", *(row.name for row in PAGE_SETTINGS)]
    assert sorted(parts) == sorted(names)
    for part, row in ((parts[row.name], row) for row in PAGE_SETTINGS):
        told = (part["label"], part["info"], part["value"])
        assert told == (row.label, help_text(row), default_value(row))
        assert [tuple(choice) for choice in part["choices"]] == choices(row)
        assert part["allow_custom_value"] == (row.number is not None)


def test_every_item_has_the_shape_that_is_described() -> None:
    """Every key, in its order, and JSON: also where nothing began or all was refused."""
    trace = replace(both_orders(trace=telling_probabilities()), vote=VOTE)
    whole: Any = api.run_json(RunView(trace), "Finished")
    nothing = api.run_json(RunView(None)), api.refused_json("No.")
    turn = whole["turns"][-1]
    for part, shape in (
        *((item, api.RunJson) for item in (whole, *nothing)),
        *((turn, api.TurnJson), (turn["frames"][0], api.FrameJson), (whole["vote"], api.VoteJson)),
        *((whole["swapped"], api.SecondRunJson), (whole["labels"], api.LabelsJson)),
        *((whole["probabilities"], api.ProbabilitiesJson), (turn["labels"], api.LabelsJson)),
    ):
        assert list(part) == list(get_type_hints(shape))
        assert json.loads(json.dumps(part)) == part
    first = {"video": 1, "number": "16", "index": 8, "seconds": 8 / 24, "until": 9 / 24}
    assert whole["turns"][0]["frames"][0] == first


README = (ROOT / "vrthinker_core/ui/README.md").read_text("utf-8").partition("\n## ")[0]
BLOCKS = dict(re.findall(r"^```(python|bash)\n(.*?)^```", README, re.S | re.M))
PRINTED = {"python": f"answered {VERDICT} [[10, 60], []]\n", "bash": '"stop": "answered"'}


@pytest.mark.parametrize(("language", "program"), [("python", sys.executable), ("bash", "bash")])
def test_the_readme(language: str, program: str, server: Server) -> None:
    if language == "bash" and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    code = BLOCKS[language].replace("http://127.0.0.1:7860", server.url.rstrip("/"))
    done = subprocess.run([program, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert PRINTED[language] in done.stdout


# `test_settings` has the sentence of each setting
WRONG_SETTINGS: list[tuple[object, str]] = [
    *((each, NOT_AN_OBJECT) for each in ("max_turns=3", "[" * 10_000, "[3]")),
    ({"turns": 3}, "There is no setting 'turns'. There are protocol, window,"),
    ('{"max_turns": 33}', '"Turns" must lie between 1 and 32; it is 33.'),
    *((each, "") for each in ('{"seed": NaN}', f'{{"seed": 1{"0" * 5000}}}')),
]
WRONG_SETTINGS += [(each, NOT_AN_OBJECT) for each in (7, [], True)]
WRONG_SETTINGS += [({"max_turns": each}, f"; it is {each}.") for each in ([3], True, {"name": 1})]


def test_settings_come_as_an_object_or_as_text_and_are_described_by_the_table() -> None:
    for nothing in (None, "", {}, "{}", {"max_turns": None, "window": "own", "protocol": ""}):
        assert resolve_settings(nothing) == Settings()
    for sent in ({"window": "2", "max_turns": 3.0}, '{"window": 2.0, "max_turns": "3"}'):
        assert resolve_settings(sent) == Settings(window=2, max_turns=3)
    for sent, sentence in WRONG_SETTINGS:
        with pytest.raises(BadInput, match=re.escape(sentence) or None):
            resolve_settings(sent)
    described = settings_schema()["anyOf"][0]["properties"]
    assert list(described) == [row.name for row in PAGE_SETTINGS]
    for row in PAGE_SETTINGS:
        shown = described[row.name]
        assert shown["description"] == f"{row.label}. {row.help} Range: {row.range}."
        assert shown.get("default") == row.default


PATHS = [
    *("/etc/passwd", "{folder}/server.log", "app.py", "{uploads}", "{link}", ""),
    *("{uploads}/../../script.jsonl", "file:///etc/passwd", "data:video/mp4;base64,AAAA"),
]
PASSWORDS = file("/etc/passwd")
SHAPES = ["/etc/passwd", {"path": "/etc/passwd"}, {"video": PASSWORDS}, [PASSWORDS]]
NOT_GIVEN = (400, 403, 404, 405)
ADDRESSES = ("gradio_api/file={}", "gradio_api/file/{}", "gradio_api/proxy={}")


def event_answers(server: Server, value: object) -> Iterator[dict[str, Any]]:
    """What every event of the page that takes a file answers, with `value` for each file."""
    page = calls.config(server)
    kinds = {component["id"]: component["type"] for component in page["components"]}
    for event in page["dependencies"]:
        takes = [kinds[component] in ("video", "uploadbutton") for component in event["inputs"]]
        if any(takes):
            yield calls.act(server, event["id"], [value if each else None for each in takes])


@pytest.mark.parametrize("path", PATHS)
def test_no_file_of_the_machine_can_be_named(path: str, server: Server, clips: Clips) -> None:
    """Not to the API, not in an event of the page, and not in an address."""
    clip, refusal = upload(server, clips[0]), "Video 1 is no uploaded file."
    uploads = Path(clip).parents[1]
    (link := uploads / "link.mp4").unlink(missing_ok=True)
    link.symlink_to(server.folder / "script.jsonl")  # no upload can make one
    path = path.format(uploads=uploads, folder=server.folder, link=link)
    before = set(files(server.folder))
    check_refused(answers(server, {"path": path}, file(clip), PROMPT)[-1], refusal)
    check_refused(answers(server, path, file(clip), PROMPT)[-1], "Video 1")
    call = calls.begin(server, file(path), file(clip), PROMPT)
    event, data = list(calls.messages(call))[-1]
    said = data["error"] if event == "error" else data[0]["error"]
    assert said == NOT_UPLOADED or said.startswith(refusal)
    for address in (*ADDRESSES, "static/{}", "assets/{}"):
        assert calls.ask(server, "GET", quote(address.format(path), safe="/=:."))[0] in NOT_GIVEN
    if path not in ("", str(uploads)):
        found = [reply.get("error") for reply in event_answers(server, file(path))]
        assert found == [NOT_UPLOADED] * max(5, len(found))
    assert set(files(server.folder)) <= before  # an earlier test's may go meanwhile


def test_the_page_takes_none_in_any_other_shape(server: Server) -> None:
    before = set(files(server.folder))
    for value in (*SHAPES, {**PASSWORDS, "is_stream": True}):
        for reply in event_answers(server, value):
            told = "error" in reply, "data" in reply, "root:" in str(reply)
            assert told == (True, False, False)
    assert set(files(server.folder)) <= before


def test_nothing_is_fetched_from_this_machine(server: Server, clips: Clips) -> None:
    """Not by the API, not by an event of the page, and not by an address."""
    clip = upload(server, clips[0])
    with socket.create_server(("127.0.0.1", 0)) as local:
        url = f"http://127.0.0.1:{local.getsockname()[1]}/film.mp4"
        event, data = list(calls.messages(calls.begin(server, file(url), file(clip), PROMPT)))[-1]
        assert (event, data["error"][-1]) == ("error", ".")
        check_refused(answers(server, {"path": url}, file(clip), PROMPT)[-1], "no uploaded file")
        check_refused(answers(server, url, file(clip), PROMPT)[-1], "")
        assert all(reply["error"].endswith(".") for reply in event_answers(server, file(url)))
        assert list(event_answers(server, {**file(clip), "url": url}))
        for address in ADDRESSES:
            assert calls.ask(server, "GET", address.format(url))[0] in NOT_GIVEN
        local.setblocking(False)
        with pytest.raises(BlockingIOError):
            local.accept()


def test_uploads_are_served_as_attachments_only(server: Server, tmp_path: Path) -> None:
    for name in ("page.html", "picture.svg", "video.mp4.html"):
        (evil := tmp_path / name).write_text("<script xmlns='http://www.w3.org/2000/svg'></script>")
        address = f"{server.url}gradio_api/file={upload(server, evil)}"
        with urllib.request.urlopen(address, timeout=PATIENCE_S) as response:
            headers = response.headers
        assert headers["content-disposition"].startswith("attachment")
        told = headers["content-type"], headers["x-content-type-options"]
        assert told == ("application/octet-stream", "nosniff")


NO_VIDEOS = [
    *(None, 7, [], {}, {"path": 7}, {"path": None}, {"path": ""}, "", "a\0b", "film.mp4"),
    *("file:///etc/passwd", "ftp://a.org/a", {"path": "https://a.org/film.mp4"}),
    *(f"http://a.org/gradio_api/file={each}" for each in ("/etc/passwd", "%2Fetc%2Fgroup")),
]
WRONG_DATA = [f"data:video/mp4{each}" for each in (";base64,!!!!", ",abc", ";base64,AAA")]
TOO_LARGE = f"data:video/mp4;base64,{'A' * (api.MAX_DATA_URL_BYTES * 4 // 3 + 8)}"
REFUSED = [(TOO_LARGE, "has more than 3.5 MB"), *((each, "cannot be read") for each in WRONG_DATA)]
REFUSED += [(each, "is no uploaded file. Upload it first") for each in NO_VIDEOS]


def test_nothing_else_is_a_video(server: Server, clips: Clips) -> None:
    other = upload(server, clips[1])
    for sent, why in REFUSED:
        check_refused(answers(server, sent, other, PROMPT)[-1], f"Video 1 {why}")


# -- the form of the page ------------------------------------------------------------------------

DEFAULTS = {row.name: default_value(row) for row in PAGE_SETTINGS}


@pytest.mark.parametrize("row", PAGE_SETTINGS, ids=lambda row: row.name)
def test_a_form_offers_all_of_a_setting_once_with_default_and_help(row: Setting) -> None:
    names, values = zip(*choices(row), strict=True)
    assert default_value(row) in values
    assert len(set(names)) == len(set(values)) == len(values)
    assert (OWN_NAME, OWN) in choices(row)[:1] or row.default is not None
    assert [row.parse(value) for value in values if value != OWN] == [*row.offered, *row.words]
    only = [name for name in ("concat", "paired") if f"Only in {name}." in help_text(row)]
    assert only == [row.protocol] * bool(row.protocol)


def test_the_form_opens_with_the_default_settings_and_so_with_what_a_trace_leaves_open() -> None:
    assert parse_settings(DEFAULTS) == Settings()
    begun = with_defaults(Settings(temperature=0.3), make_protocol(Settings(), "concat"))
    for name in ("window", "max_turns", "frames_per_call"):
        unset: dict[str, Any] = {name: None}
        form = form_values(replace(begun, **unset), ("concat",))
        assert form == {**DEFAULTS, "temperature": "0.3"}


@pytest.mark.parametrize("trained", [(), ("paired",), ("concat",), ("paired", "concat")], ids=str)
@given(data=st.data())
def test_a_form_gives_a_runs_settings_again(trained: Any, data: st.DataObject) -> None:
    def begun(settings: Settings) -> Settings:
        return with_defaults(settings, make_protocol(settings, chosen_protocol(settings, trained)))

    offered = {row.name: [value for _, value in choices(row)] for row in PAGE_SETTINGS}
    drawn = {name: data.draw(st.sampled_from(values)) for name, values in offered.items()}
    try:
        run = begun(parse_settings(drawn))
    except BadInput:
        return  # more frames per call than the protocol allows
    assert begun(parse_settings(form_values(run, trained))) == run
    for default in (form_values(begun(Settings()), trained), form_values(Settings())):
        assert parse_settings(default) == Settings()
