"""Labelled pairs from training rows: RL and SFT rows, as published and as `export` writes them, in JSON lines or a JSON list."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, get_args

from vrthinker_core.dialects import make_dialect, sanitize_prompt
from vrthinker_core.errors import BadInput
from vrthinker_core.results.datasets.layout import MISSING, TableRow, find_below, make_pairs
from vrthinker_core.results.datasets.pair_csv import LAYOUT
from vrthinker_core.results.pair import EvaluationPair
from vrthinker_core.types import Dimension, ProtocolName, Settings
from vrthinker_core.types.wording import DIMENSION_NAMES

Json = Mapping[str, Any]
AFTER = 40  # Characters of a card by which the end of the prompt is known: what follows may name other numbers of frames
LABEL = re.compile(rf"\b({'|'.join(Dimension)})\s*[=:]\s*([\w.+-]*\w)")  # In an answer: TA=1, VQ=0, …


def read_row_file(path: Path) -> list[EvaluationPair]:
    """The pairs of a file of rows, each once; videos are full paths or relative to its folder.

    Raises BadInput for a file that cannot be read, or that holds no rows.
    """
    rows = [_table_row(number, row) for number, row in enumerate(read_json_rows(path), start=1)]
    return make_pairs(_each_once(rows), LAYOUT, partial(find_below, path.parent, absolute=True))


def read_json_rows(path: Path) -> list[Any]:
    """The values of a file of JSON lines, or of one JSON list. Raises BadInput."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise BadInput(f"Cannot read {path}: it is not UTF-8.") from None
    try:
        if text.lstrip().startswith("["):
            rows: list[Any] = json.loads(text)
            return rows
        # What else `splitlines` takes for the end of a line may stand in the text of a row
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError):
        raise BadInput(f"{path} holds no JSON lines and no JSON list.") from None


def prompt_in(question: str) -> str | None:
    """The prompt of the videos in a question to the judge: what stands in the prompt's place of a known card.

    A text that is no question at all is the prompt itself. None for the question of a card that is not known here.
    """
    for before, after in _cards():
        start = question.find(before)
        end = question.find(after, start + len(before))
        if start >= 0 and end >= 0:
            return question[start + len(before) : end]
    return None if sanitize_prompt(question).quoted or any(f"({each.value})" in question for each in Dimension) else question


@cache
def _cards() -> tuple[tuple[str, str], ...]:
    """What stands before the prompt, and the beginning of what stands after it, in every wording of a first message."""
    mark = "{the prompt}"
    found = set()
    for protocol in get_args(ProtocolName):
        for preset in ("card", "clean"):
            question = make_dialect(Settings(preset=preset), protocol).opening_messages(mark, ())[-1].text
            before, _, after = question.partition(mark)
            found.add((before, after[:AFTER]))
    return tuple(sorted(found))


def _table_row(number: int, row: Any) -> TableRow:
    try:
        return TableRow(number, _values(row))
    except BadInput as bad:
        return TableRow(number, {}, str(bad))


def _values(row: Any) -> dict[str, str]:
    """The row in the columns of a plain table of pairs. Raises BadInput with one sentence."""
    if not isinstance(row, Mapping):
        raise BadInput("The row is no JSON object.")
    videos = _videos(row)
    labels = _labels(row)
    return {"video1": videos[0], "video2": videos[1], "prompt": _prompt(row)} | labels


def _videos(row: Json) -> tuple[str, str]:
    named = row.get("videos") or row.get("image") or row.get("video")
    found = named if isinstance(named, list) else []
    paths = [str(each.get("path", "")) if isinstance(each, Mapping) else str(each) for each in found]
    if len(paths) != 2 or row.get("is_video") is False:
        raise BadInput('The row does not name two videos: give them as a list of two paths in "image", with "is_video" true.')
    return paths[0], paths[1]


def _prompt(row: Json) -> str:
    if isinstance(prompt := row.get("prompt"), str):
        return prompt
    question = row.get("question") or _first_question(row.get("message_list"))
    found = prompt_in(question) if isinstance(question, str) else ""
    if found is None:
        raise BadInput('The question is worded as no card that is known here: give the prompt of the videos in "prompt".')
    return found


def _first_question(messages: Any) -> str:
    """The text of the first message of the user."""
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, Mapping) and message.get("role") == "user":
            return message_text(message)
    return ""


def message_text(message: Json) -> str:
    """The text of a message of a `message_list`, whose content is text or a list of parts."""
    content = message.get("content", "")
    if isinstance(content, str):
        return content
    parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts if part.get("type") == "text")


def _labels(row: Json) -> dict[str, str]:
    """Every label as a text, by the dimension's name. Raises BadInput for an answer that states none."""
    told = row.get("answer", row.get("labels"))
    if isinstance(told, list) and told:
        told = told[-1]
    if isinstance(told, Mapping):
        return {_dimension(str(name)): str(value) for name, value in told.items() if value is not None}
    if told is None:
        messages = row.get("message_list")
        reply = messages[-1] if isinstance(messages, list) and messages else None
        return dict(LABEL.findall(message_text(reply))) if isinstance(reply, Mapping) else {}
    found = {name.upper(): value for name, value in re.findall(LABEL.pattern, str(told), re.IGNORECASE)}
    if not found and str(told).strip().lower() not in MISSING:
        raise BadInput("The answer states no label: write it as TA=1, VQ=0, MQ=2, OA=1.")
    return found


def _dimension(name: str) -> str:
    """The dimension that a label is given for, by its short or its full name. Raises BadInput."""
    known = {called.upper(): each.value for each in Dimension for called in (each.value, DIMENSION_NAMES[each])}
    if name.strip().upper() not in known:
        raise BadInput(f"The answer has a label for {name}, which is no dimension: name TA, VQ, MQ and OA.")
    return known[name.strip().upper()]


def _each_once(rows: list[TableRow]) -> Iterator[TableRow]:
    """Without the further conversations of a pair, which say the same of it."""
    seen: set[tuple[tuple[str, str], ...]] = set()
    for row in rows:
        key = tuple(sorted(row.values.items()))
        if row.fault or key not in seen:
            yield row
        seen.add(key)
