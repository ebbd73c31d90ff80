"""The page's Gradio components and its form; `handlers` connects what they do."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import gradio as gr

from vrthinker_core.backends.judge_name import NANO_NAME
from vrthinker_core.branch_plan import MAX_FRAMES
from vrthinker_core.protocols import make_protocol, with_defaults
from vrthinker_core.protocols.base import MAX_PROMPT
from vrthinker_core.protocols.factory import chosen_protocol
from vrthinker_core.types import ProtocolName, Settings
from vrthinker_core.types.settings import OWN, PAGE_SETTINGS, Setting, setting
from vrthinker_core.types.wording import DIMENSION_NAMES
from vrthinker_core.ui import words
from vrthinker_core.ui.fetch import MAX_URL_LENGTH

# Component to its new value, as Gradio takes it; a component that is left out stays as it is
Updates = dict[Any, Any]
FormValues = Mapping[Any, Any]  # component to its value, as a browser sends them


class PageComponents:
    """Builds the page; its attributes are the components that take part in events."""

    def __init__(
        self, cards: Sequence[Mapping[str, Any]], judges: Sequence[str], lists_runs: bool = False
    ) -> None:
        """Build it with `cards` of examples and `judges`; `lists_runs`: with a list of runs."""
        outside = "target='_blank' rel='noopener noreferrer'"
        links = (f"<a href='{to}' {outside}>{name}</a>" for name, to in words.LINKS.items())
        title = f"<h1>{words.TITLE}</h1><p class='vrt-lead'>{words.LEAD}</p>"
        about = f"<p class='vrt-links'>Demo of VR-Thinker (2025) {' '.join(links)}</p>"
        header = f"<header class='vrt vrt-header'>{title}{about}</header>"
        self.head = _html("mountHead(host, props, watch)", "", "head", header)
        self.examples = _html("mountExamples(host, props, trigger)", list(cards), "examples")
        with gr.Row(elem_id="stage", equal_height=False):
            with gr.Column(elem_id="bench", scale=5, min_width=320):
                self._build_bench(judges)
            with gr.Column(elem_id="run", scale=7, min_width=320):
                if lists_runs:
                    _html(f"mountRunBar(host, {json.dumps(words.RUNS_LIST)})", None, "run-bar")
                self._build_tabs(judges, lists_runs)
        self.run_outputs = [self.status, self.trace, self.scope]
        self.shown_run = [*self.videos, self.prompt, *self.run_outputs, self.buttons]

    def buttons_of(
        self, number: int, running: bool = False, faults: Mapping[str, str] = {}, again: float = 0
    ) -> Updates:
        """Show Stop, or Compare, for the run of this `number`; the page ignores earlier ones.

        `faults`: why none was begun, by the fields that are marked. `again`: seconds after which
        the page asks for the run again.
        """
        said: dict[str, Any] = {"faults": faults} if faults else {}
        said |= {"again": again} if again else {}
        return {self.buttons: {"number": number, "running": running, **said}}

    def _build_bench(self, judges: Sequence[str]) -> None:
        """Build the form and the players, which stay in sight."""
        with gr.Row(elem_id="players"):
            (self.first, one), (self.second, two) = _box(1, "first"), _box(2, "second")
            self.videos, self.addresses = (self.first, self.second), (one, two)
        measured = json.dumps(words.MEASURED)
        self.rail = _html(f"mountRail(host, props, watch, {measured}, trigger)", None, "rail")
        with gr.Row(elem_id="ask", equal_height=True):
            hint = "The text both videos were made from"
            self.prompt = gr.Textbox(
                label="Prompt", placeholder=hint, lines=2, max_lines=6, elem_id="prompt", scale=6
            )
            with gr.Column(scale=1, min_width=170):
                chooser = f"mountChooser(host, props, watch, {json.dumps(words.CHOOSER)}, trigger)"
                title = words.judge_name(judges[0])
                self.chooser = _html(chooser, {"title": title, "state": ""}, "chooser")
                self.judge = _html("mountJudge(watch, trigger)", judges[0], "judge")
                self.compare_button = gr.Button("Compare", variant="primary", elem_id="go")
                self.stop_button = gr.Button("Stop", elem_id="stop")
                mount = "mountButtons(host, props, watch, trigger)"
                self.buttons = _html(mount, {"number": 0, "running": False}, "buttons")
        mount = f"mountScope(host, props, watch, {json.dumps(words.DEMO_CANNOT)}, trigger)"
        self.scope = _html(mount, {"outside": False, "demo": judges[0] == NANO_NAME}, "scope")
        _html(f"mountBlind(host, {json.dumps(words.BLIND_MODE)})", None, "blind")
        self.status = gr.Textbox(
            words.READY, label="Status", elem_id="status", interactive=False, lines=1, max_lines=3
        )
        with gr.Accordion("Settings", open=False, elem_id="settings"):
            with gr.Row():
                first = {name: _setting(setting(name)) for name in FIRST_ROW}
            with gr.Accordion("For researchers", open=False, elem_id="more-settings"), gr.Row():
                self.settings = {
                    row.name: first.get(row.name) or _setting(row) for row in PAGE_SETTINGS
                }

    def _build_tabs(self, judges: Sequence[str], lists_runs: bool) -> None:
        with gr.Tabs():
            with gr.Tab("Thinking"):
                help_texts = words.DIMENSION_HELP.items()
                dimensions = [[each, DIMENSION_NAMES[each], text] for each, text in help_texts]
                asked = json.dumps([["Swap test", words.CHECK_HELP], dimensions])
                told = f"{json.dumps(words.INTRODUCTION)}, {asked}"
                mount = f"mountTrace(host, props, watch, {told}, trigger)"
                self.trace = _html(mount, {"turns": []}, "trace")
                windows = [choice for choice in choices(setting("window")) if choice[1] != OWN]
                named = [(words.judge_name(name), name) for name in judges]
                offered = {"words": words.FORM, "windows": windows, "judges": named}
                form = {**offered, "maxFrames": MAX_FRAMES, "maxPrompt": MAX_PROMPT}
                mount = f"mountBranches(props, watch, {json.dumps(form)}, trigger)"
                self.branches = _html(mount, {"refusal": ""}, "branches")
            with gr.Tab(words.TAB_FRAMES):
                _html(f"mountFrames(host, {words.NO_FRAMES!r})", None, "frames")
            with gr.Tab("History"):
                with gr.Column(elem_id="opening"):
                    self.open_button = gr.UploadButton(
                        words.OPEN_TRACE, file_types=[".json"], elem_id="open", variant="secondary"
                    )
                _html(f"mountHistory(host, {json.dumps(words.HISTORY)})", None, "history")
            if lists_runs:
                with gr.Tab("Evaluation"):
                    _html("mountRuns(host)", None, "evaluation")


def no_updates() -> Updates:
    """Leave every component as it is; an empty dict is a value."""
    return dict(gr.skip())


def theme() -> gr.themes.Base:
    """Return calm colours, and fonts that every machine has."""
    return gr.themes.Monochrome(
        font=["system-ui", "sans-serif"],
        font_mono=["ui-monospace", "monospace"],
        spacing_size="md",
        radius_size="sm",
    ).set(
        layout_gap="14px",
        button_secondary_text_color_hover="*neutral_700",
        button_border_width="1px",
        button_primary_background_fill="#0b7a6f",
        button_primary_background_fill_dark="#0b7a6f",
        button_primary_background_fill_hover="#09645b",
        button_primary_background_fill_hover_dark="#09645b",
        button_primary_text_color="white",
        button_primary_text_color_dark="white",
    )


def _setting(row: Setting) -> gr.Dropdown:
    typed = row.number is not None  # numbers that are not offered may be typed
    return gr.Dropdown(
        choices(row),
        value=default_value(row),
        label=row.label,
        info=help_text(row),
        elem_id=row.name,
        filterable=typed,
        allow_custom_value=typed,
    )


def _box(number: int, name: str) -> tuple[gr.Video, gr.Textbox]:
    """Build a player, and the field for a web address in it as long as it is empty."""
    with gr.Column(elem_classes="vrt-box", min_width=140):
        player = gr.Video(
            label=f"Video {number}", sources=["upload"], elem_id=name, height=320, buttons=[]
        )
        address = gr.Textbox(
            label=f"Web address of video {number}",
            placeholder="or paste an address",
            max_lines=1,
            max_length=MAX_URL_LENGTH,
            submit_btn="Get",
            elem_id=f"address-{number}",
            min_width=100,
        )
    return player, address


def _html(mount: str, value: Any, name: str, template: str = "<div></div>") -> gr.HTML:
    """Build a constant template; the script `VRThinker.mount…` writes the value as text."""
    script = f"const host = element.firstElementChild; VRThinker.{mount};"
    return gr.HTML(
        value, html_template=template, js_on_load=script, apply_default_css=False, elem_id=name
    )


OWN_NAME = "As the protocol says"  # what the form calls `OWN`
# Beside the judge; all others are folded away below
FIRST_ROW = ("swap", "protocol")


def choices(row: Setting) -> list[tuple[str, str]]:
    """Return (name, value) of all that the form offers for a setting, in order."""
    own = [(OWN_NAME, OWN)] if row.default is None else []
    numbers = [(row.names.get(number, _text(number)), _text(number)) for number in row.offered]
    return [*own, *numbers, *((name, word) for word, name in row.words.items())]


def default_value(row: Setting) -> str:
    """Return the value that is chosen at first."""
    return OWN if row.default is None else _text(row.default)


def form_values(settings: Settings, trained: Sequence[ProtocolName] = ()) -> dict[str, str]:
    """Return the values that ask for these settings of a run.

    A value equal to the default is shown as the default: for a run that has begun, the default of
    its protocol (`trained`: the protocols of its judge).
    """
    own = Settings()
    if settings.protocol != "auto":
        filled = with_defaults(own, make_protocol(own, settings.protocol))
        own = replace(filled, protocol=chosen_protocol(own, trained))

    def value(row: Setting) -> str:
        sent: Any = getattr(settings, row.name)
        return default_value(row) if sent in (None, getattr(own, row.name)) else _text(sent)

    return {row.name: value(row) for row in PAGE_SETTINGS}


def help_text(row: Setting) -> str:
    """Return the table's help; it names a protocol that alone has the setting."""
    return f"{row.help} Only in {row.protocol}." if row.protocol else row.help


def _text(value: str | float) -> str:
    """Write a value as a form sends it: "0", not "0.0"."""
    return str(value).removesuffix(".0")
