"""The page around a report: one file without any request, light and dark, from phones to wide screens."""

import re
from collections.abc import Sequence

from vrthinker_core.__about__ import asset
from vrthinker_core.evaluation.reports.html.markup import Html, element, escape, join
from vrthinker_core.text import policy_hash

_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{title}</h1>{lead}{contents}</header>
<main>
{sections}
</main>
<script>{script}</script>
</body>
</html>
"""


def render_page(title: str, lead: str, sections: Sequence[tuple[str, str]]) -> str:
    """The whole file: `lead` stands under the title, then each section with its own title; one without content is left out.

    The policy allows our script and our style by their hashes, and nothing else.
    """
    shown = [(name, content) for name, content in sections if content]
    style = asset("report.css").read_text(encoding="utf-8")
    script = asset("report.js").read_text(encoding="utf-8")
    policy = f"default-src 'none'; style-src {policy_hash(style)}; script-src {policy_hash(script)}; base-uri 'none'; form-action 'none'"
    links = join(*(element("a", name, href=f"#{_anchor(name)}") for name, _ in shown))
    body = join(
        *(
            element("section", element("h2", name), content, id=_anchor(name))
            for name, content in shown
        )
    )
    return _FRAME.format(
        title=escape(title),
        lead=escape(lead),
        contents=element("nav", links, aria_label="Sections"),
        sections=body,
        policy=policy,
        style=style,
        script=script,
    )


def paragraph(*content: str) -> Html:
    """A sentence or two under a title."""
    return element("p", *content)


def remark(*content: str) -> Html:
    """What a reader must know about a table or a plot: small, below it."""
    return element("p", *content, class_="remark")


def plots(*figures: str) -> Html:
    """Plots beside each other, as many as fit."""
    return element("div", *figures, class_="plots") if any(figures) else Html("")


def _anchor(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower()).strip("-")
