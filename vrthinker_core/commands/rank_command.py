"""The command `rank`: generators are ranked by comparing their videos; a table in the terminal, JSON and HTML in a folder."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vrthinker_core.commands.arguments import print_error, progress
from vrthinker_core.commands.setting_options import with_setting_options
from vrthinker_core.types import Dimension, Settings

if TYPE_CHECKING:
    from vrthinker_core.evaluation.ranking.ranking import GeneratorStrength, Ranking

CONCURRENCY = 8  # Pairs in hand at a time, where nobody chose
SHOWN_CYCLES = 5


@with_setting_options
def rank(
    videos: Annotated[Path, typer.Argument(help="Folder of generators with prompts.csv, or CSV with generator, prompt, video.")],
    *,
    judge: Annotated[str | None, typer.Option(help="As for compare. [default: the best one here]")] = None,
    budget: Annotated[int | None, typer.Option(help="Judge at most so many pairs, the most telling ones. [default: all]")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("ranking"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the results that the folder holds.")] = False,
    concurrency: Annotated[int, typer.Option(help="Pairs in hand at a time.", min=1)] = CONCURRENCY,
    settings: Settings,
) -> None:
    """Rank video generators by comparing what they made of the same prompts."""
    from vrthinker_core.backends import open_backend
    from vrthinker_core.evaluation.engines.local import judge_locally
    from vrthinker_core.evaluation.ranking.ranking import rank_generators
    from vrthinker_core.evaluation.ranking.report import write_report
    from vrthinker_core.evaluation.ranking.run import RankingFolder, judge_pairs, planned_pairs
    from vrthinker_core.evaluation.ranking.strengths import evalica
    from vrthinker_core.evaluation.ranking.video_table import read_videos

    table = read_videos(videos)
    total = planned_pairs(table, budget)
    evalica()  # Where it is missing, that is said before hours of judging
    for line in table.left_out:
        print_error(line)
    folder = RankingFolder(out, table)
    folder.check(resume)
    backend = open_backend(judge)
    folder.claim(backend.name, settings)
    engine = partial(judge_locally, backend=backend, settings=settings, out=out, concurrency=concurrency)
    earlier = len(folder.results())
    with progress("pairs") as advance:
        for done, result in enumerate(judge_pairs(table, engine, backend.name, out, budget), start=earlier + 1):
            print_error(f"{result.pair.first_generator} and {result.pair.second_generator}: {result.error}" if result.error else "")
            advance(done, total)
    ranking = rank_generators(table, folder.results(), backend.name)
    write_report(ranking, out)
    _print(ranking, out)


def _print(ranking: "Ranking", out: Path) -> None:
    """The overall ranking as a table, the places in each dimension beside it, and cycles."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    columns = ("", "generator", "strength", "95 %", "win rate", *(each.value for each in Dimension if each is not Dimension.OA))
    table = Table(*columns, box=None)
    places = {each: {row.generator: row.place for row in of.strengths} for each, of in ranking.dimensions.items()}
    for row in ranking.dimensions[Dimension.OA].strengths:
        others = [_number(places[each][row.generator]) for each in Dimension if each is not Dimension.OA]
        table.add_row(*map(Text, (_number(row.place), row.generator, *_figures(row), *others)))
    console.print(table)
    for line in ranking.summary(SHOWN_CYCLES):
        console.print(Text(line))
    console.print(Text(f"{out / 'ranking.html'} shows the win matrix and the best of each prompt."))


def _figures(row: "GeneratorStrength") -> tuple[str, str, str]:
    strength = "–" if row.strength is None else f"{row.strength:+.2f}"
    interval = "–" if row.interval is None else f"{row.interval[0]:+.2f} to {row.interval[1]:+.2f}"
    rate = row.all_pairs.rate
    return strength, interval, "–" if rate is None else f"{rate:.0%}"


def _number(place: int | None) -> str:
    return "–" if place is None else str(place)
