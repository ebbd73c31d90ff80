"""HTML elements: every text in them is escaped, unless it was made here."""

import html
import re

from vrthinker_core.text import encodable

_NOT_SHOWN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)  # Control characters, which no HTML file may hold
VOID = frozenset({"br", "meta", "line", "rect", "circle", "path"})  # Elements without content
Attribute = str | float | bool | None


class Html(str):
    """Markup that stands in a page as it is; any other string is text."""

    __slots__ = ()


def escape(text: str) -> Html:
    """Text as it stands in a page, in content and in attributes."""
    if isinstance(text, Html):
        return text
    return Html(html.escape(_NOT_SHOWN.sub("\N{REPLACEMENT CHARACTER}", encodable(text))))


def join(*parts: str) -> Html:
    """Several parts, one after another; what is no `Html` is escaped."""
    return Html("".join(map(escape, parts)))


def element(name: str, *content: str, **attributes: Attribute) -> Html:
    """One element. In names of attributes `_` stands for `-`, and one at the end is dropped (`class_`).

    An attribute that is None or False is left out, True stands without a value, and numbers have at most two decimals.
    """
    opening = "".join(
        _attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items()
    )
    return Html(
        f"<{name}{opening}/>" if name in VOID else f"<{name}{opening}>{join(*content)}</{name}>"
    )


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    text = value if isinstance(value, str) else f"{round(value, 2):g}"
    return f' {name}="{escape(text)}"'
