"""The page's Gradio components and where they stand; what they do is connected in `events`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from vrthinker_core.types.settings import SETTINGS, Setting, setting
from vrthinker_core.ui.fetch.download import MAX_URL_LENGTH
from vrthinker_core.ui.sessions import settings_form
from vrthinker_core.ui.view import words

TITLE = f"<h1>{words.TITLE}</h1><p>{words.CLAIM}</p><p class='vrt-judge'></p>"


@dataclass(frozen=True, slots=True)
class PageComponents:
    """The components that take part in events."""

    head: gr.HTML
    first: gr.Video
    second: gr.Video
    addresses: tuple[gr.Textbox, gr.Textbox]
    rail: gr.HTML
    prompt: gr.Textbox
    compare_button: gr.Button
    stop_button: gr.Button
    judge: gr.Dropdown
    settings: Mapping[str, gr.Dropdown]
    """By the name of the setting."""
    status: gr.Textbox
    queue_position: gr.Textbox
    """Where Gradio shows the place in the queue. No event writes to it: at its end Gradio would clear the place."""
    tabs: gr.Tabs
    trace: gr.HTML
    gallery: gr.Gallery
    transcript: gr.HTML
    open_button: gr.UploadButton
    examples: gr.HTML

    @property
    def videos(self) -> tuple[gr.Video, gr.Video]:
        """Both players."""
        return self.first, self.second

    @property
    def compare_inputs(self) -> set[Any]:
        """What a comparison takes; from a set, Gradio makes one dict of component and value."""
        return {self.first, self.second, self.prompt, self.judge, *self.settings.values()}

    @property
    def run_outputs(self) -> list[Any]:
        """What a run writes to."""
        return [self.status, self.trace, self.transcript, self.gallery]

    @property
    def buttons(self) -> list[Any]:
        """Compare and Stop."""
        return [self.compare_button, self.stop_button]


def build_layout(cards: Sequence[Mapping[str, Any]], judges: Sequence[str]) -> PageComponents:
    """Build the page. `cards` are its examples, `judges` the names that can be chosen."""
    head = _html(f"<header class='vrt vrt-header'>{TITLE}</header>", "mountHead(host, props, watch)", "", "head")
    with gr.Row(elem_id="players"):
        first, second = _player(1, "first"), _player(2, "second")
    rail = _html("<div></div>", "mountRail(host, trigger)", None, "rail")
    prompt, compare_button, stop_button = _prompt_row()
    addresses, (judge, settings) = _addresses(), _settings(judges)
    status, queue_position = _status()
    tabs, trace, gallery, transcript, open_button = _tabs()
    return PageComponents(
        head=head,
        first=first,
        second=second,
        addresses=addresses,
        rail=rail,
        prompt=prompt,
        compare_button=compare_button,
        stop_button=stop_button,
        judge=judge,
        settings=settings,
        status=status,
        queue_position=queue_position,
        tabs=tabs,
        trace=trace,
        gallery=gallery,
        transcript=transcript,
        open_button=open_button,
        examples=_html("<div></div>", f"mountExamples(host, props, trigger, {words.EXAMPLES!r})", list(cards), "examples"),
    )


def theme() -> gr.themes.Base:
    """Calm colours, and fonts that every machine has: nothing is requested from elsewhere."""
    return gr.themes.Monochrome(
        font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"], spacing_size="md", radius_size="sm"
    ).set(layout_gap="14px", button_secondary_text_color_hover="*neutral_700", button_border_width="1px")


def _prompt_row() -> tuple[gr.Textbox, gr.Button, gr.Button]:
    with gr.Row(elem_id="ask", equal_height=True):
        prompt = gr.Textbox(
            label="Prompt", placeholder="The text both videos were made from", lines=2, max_lines=6, elem_id="prompt", scale=6
        )
        with gr.Column(scale=1, min_width=140):
            compare_button = gr.Button("Compare", variant="primary", elem_id="go")
            stop_button = gr.Button("Stop", elem_id="stop", visible=False)
    return prompt, compare_button, stop_button


def _status() -> tuple[gr.Textbox, gr.Textbox]:
    """The status line, and the place in the queue."""
    with gr.Row(elem_id="standing"):
        status = gr.Textbox(words.READY, label="Status", elem_id="status", interactive=False, lines=1, max_lines=3)
        return status, gr.Textbox(label="Place in the queue", elem_id="place", interactive=False, lines=1, max_lines=1)


def _tabs() -> tuple[gr.Tabs, gr.HTML, gr.Gallery, gr.HTML, gr.UploadButton]:
    """The tabs, and what stands in them: trace, frames, transcript, and the button that opens a saved trace."""
    with gr.Tabs() as tabs:
        with gr.Tab(words.TAB_TRACE):
            trace = _html("<div></div>", f"mountTrace(host, props, watch, {words.EMPTY!r})", {"turns": []}, "trace")
        with gr.Tab(words.TAB_FRAMES):
            gallery = gr.Gallery(
                label=words.TAB_FRAMES,
                show_label=False,
                elem_id="frames",
                columns=4,
                height="auto",
                object_fit="contain",
                interactive=False,
                buttons=[],
            )
        with gr.Tab(words.TAB_TRANSCRIPT):
            transcript = _html("<div></div>", "mountTranscript(host, props, watch)", {"passages": []}, "transcript")
        with gr.Tab(words.TAB_SAVE):
            _html("<div></div>", "mountSave(host)", None, "save")
            open_button = gr.UploadButton(words.OPEN_TRACE, file_types=[".json"], elem_id="open", variant="secondary")
    return tabs, trace, gallery, transcript, open_button


def _settings(judges: Sequence[str]) -> tuple[gr.Dropdown, dict[str, gr.Dropdown]]:
    """The judge, and every row of `SETTINGS` by its name."""
    with gr.Accordion(words.SETTINGS, open=False, elem_id="settings"):
        with gr.Row():
            judge = gr.Dropdown(
                list(judges), value=judges[0], label="Judge", info=words.JUDGE_HELP, elem_id="judge", filterable=False
            )
            parts = {name: _setting(setting(name)) for name in settings_form.FIRST_ROW}
        with gr.Accordion(words.MORE_SETTINGS, open=False, elem_id="more-settings"), gr.Row():
            parts |= {row.name: _setting(row) for row in SETTINGS if row.name not in parts}
    return judge, parts


def _setting(row: Setting) -> gr.Dropdown:
    """Numbers that are not offered may be typed."""
    return gr.Dropdown(
        settings_form.choices(row),
        value=settings_form.default_choice(row),
        label=row.label,
        info=settings_form.help_text(row),
        elem_id=row.name,
        filterable=row.number is not None,
        allow_custom_value=row.number is not None,
    )


def _player(number: int, name: str) -> gr.Video:
    return gr.Video(label=f"Video {number}", sources=["upload"], elem_id=name, min_width=140, height=320, buttons=[])


def _addresses() -> tuple[gr.Textbox, gr.Textbox]:
    """One for each video, folded away: most visitors have files."""
    with gr.Accordion(words.ADDRESSES, open=False, elem_id="addresses"), gr.Row():
        return _address(1), _address(2)


def _address(number: int) -> gr.Textbox:
    return gr.Textbox(
        label=f"Video {number}",
        placeholder="https://example.org/video.mp4",
        max_lines=1,
        max_length=MAX_URL_LENGTH,
        submit_btn=words.GET,
        elem_id=f"address-{number}",
        min_width=240,
    )


def _html(template: str, mount: str, value: Any, name: str) -> gr.HTML:
    """A constant template; the value comes as data, and the page's script (`VRThinker.mount`) writes it as text."""
    return gr.HTML(
        value,
        html_template=template,
        js_on_load=f"const host = element.firstElementChild; VRThinker.{mount};",
        apply_default_css=False,
        elem_id=name,
    )
