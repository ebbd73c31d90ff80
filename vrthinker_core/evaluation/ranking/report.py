"""A ranking as files: `ranking.json` with everything that was found, and `ranking.html` to look at."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.ranking.ranking import Ranking
from vrthinker_core.evaluation.ranking.report_page import render_ranking
from vrthinker_core.files.atomic_file import write_atomically
from vrthinker_core.text import encodable

FORMAT = "vr-thinker-ranking/1"
JSON, HTML = "ranking.json", "ranking.html"


def write_report(ranking: Ranking, out: Path) -> None:
    """Write both files into the folder; those of an earlier ranking are replaced. Raises BadInput where that cannot be done."""
    try:
        _write(
            out / JSON,
            json.dumps(to_json(ranking), ensure_ascii=False, indent=1, allow_nan=False) + "\n",
        )
        _write(out / HTML, render_ranking(ranking))
    except OSError as error:
        raise BadInput(
            f"Cannot write to {encodable(str(out))}: {error.strerror or error}."
        ) from None


def to_json(ranking: Ranking) -> dict[str, Any]:
    """The ranking as plain JSON values; None where nothing was said."""
    return {"format": FORMAT, **asdict(ranking)}


def _write(path: Path, text: str) -> None:
    write_atomically(path, encodable(text).encode())
