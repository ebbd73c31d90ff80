"""A run as one HTML file that opens without a request: pictures inside, a strict policy."""

import base64
import json

from vrthinker_core.text import policy_hash
from vrthinker_core.types import Thumbnail
from vrthinker_core.types.events import Trace
from vrthinker_core.types.wording import DEMO_RUN
from vrthinker_core.ui import assets, words
from vrthinker_core.ui.page_json import transcript_json, view_json
from vrthinker_core.ui.run_state import fold_all
from vrthinker_core.ui.tiles import ImageSource, image_source

TEMPLATE = """<!doctype html>
<html lang="en" class="vrt-saved">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{name}</title>
<style>{style}</style>
<header class="vrt vrt-header"><h1>{title}</h1><div class="vrt-prompt"></div><p class="vrt-judge"></p></header>
<main><div id="trace"></div>
<details id="frames" class="vrt"><summary>{frames}</summary><div></div></details>
<div id="transcript"></div></main>
<script type="application/json" id="data">{values}</script>
<script>{script}</script>
</html>
"""


def render_report(trace: Trace) -> str:
    """Return the whole file; its policy allows our script and style alone."""
    state = fold_all(trace.events())
    data = {"trace": view_json(state, inline_image), "transcript": transcript_json(state)}
    style = assets.joined(*assets.VIEW_STYLES)
    script = assets.joined(*assets.VIEW, "report.js")
    policy = (
        f"default-src 'none'; img-src data:; style-src {policy_hash(style)}; "
        f"script-src {policy_hash(script)}; base-uri 'none'"
    )
    # JSON that cannot close the script element around it
    values = json.dumps(data)
    for sign in "<>&":
        values = values.replace(sign, f"\\u{ord(sign):04x}")
    outside = trace.finished is not None and trace.finished.outside_scope
    name = f"{DEMO_RUN} · {words.TITLE}" if outside else words.TITLE
    return TEMPLATE.format(
        name=name,
        title=words.TITLE,
        frames=words.TAB_FRAMES,
        policy=policy,
        style=style,
        script=script,
        values=values,
    )


def inline_image(frame: Thumbnail) -> ImageSource:
    """Return the thumbnail itself, as a data URI."""
    data = base64.b64encode(frame.jpeg).decode()
    return image_source(f"data:image/jpeg;base64,{data}", frame.jpeg)
