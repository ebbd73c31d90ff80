"""The report of one evaluation as a page."""

from collections.abc import Sequence

from vrthinker_core.evaluation.reports.agreement_section import (
    agreement_section,
    main_agreement,
    published_section,
)
from vrthinker_core.evaluation.reports.behaviour_sections import (
    calibration_section,
    cost_section,
    group_section,
    order_section,
    overall_section,
)
from vrthinker_core.evaluation.reports.disagreements import disagreements
from vrthinker_core.evaluation.reports.figures import (
    agreement_sentence,
    best_baseline,
    outcome_sentences,
    share,
    value_of,
)
from vrthinker_core.evaluation.reports.html.markup import Html, element, join
from vrthinker_core.evaluation.reports.html.page_frame import paragraph, render_page
from vrthinker_core.evaluation.reports.pair_tables import disagreement_section, not_judged_section
from vrthinker_core.evaluation.scores.bootstrap import IntervalEstimate
from vrthinker_core.evaluation.scores.summary import Summary
from vrthinker_core.results.result import PairResult


def evaluation_page(summary: Summary, results: Sequence[PairResult]) -> str:
    """The whole file."""
    on = f" on {summary.data_set}" if summary.data_set else ""
    sections = [
        ("Agreement with people", agreement_section(summary)),
        ("Published numbers", published_section(summary)),
        (
            "Worst disagreements",
            disagreement_section(disagreements(results, summary.dimension), summary.dimension),
        ),
        ("Calibration", calibration_section(summary)),
        ("Order of the videos", order_section(summary)),
        ("Overall against its parts", overall_section(summary)),
        ("Turns and cost", cost_section(summary)),
        ("Generators and lengths", group_section(summary)),
        ("Not judged", not_judged_section(results)),
    ]
    return render_page(f"{summary.judge}{on}", _lead(summary), sections)


def _lead(summary: Summary) -> Html:
    counted = paragraph(" ".join(outcome_sentences(summary)))
    if not summary.agreement:
        return join(
            counted, paragraph("People gave no labels, so nothing is said here about agreement.")
        )
    main = main_agreement(summary)
    unsure = main.margin.low is None or main.margin.low <= 0
    return join(
        counted,
        element("p", agreement_sentence(main), class_="warning" if unsure else None),
        _facts(summary),
    )


def _facts(summary: Summary) -> Html:
    main, costs = main_agreement(summary), summary.costs
    best = best_baseline(main)
    facts = [
        fact("tau", share(main.tau.value), _interval(main.tau)),
        fact("diff", share(value_of(main.diff)), _interval(main.diff)),
        fact("best baseline, tau", share(best.tau), best.name),
        fact("judged", f"{main.answered:,}", f"of {main.labelled:,} labelled pairs"),
        fact(
            "ties", share(value_of(main.tie_rate)), f"people: {share(main.people_tie_rate.value)}"
        ),
    ]
    facts += [fact("seconds a pair", f"{costs.seconds.median:.1f}", "median")] if costs else []
    return element("dl", *facts, class_="facts")


def fact(name: str, value: str, more: str) -> Html:
    """One of the figures at the top of a report."""
    return element("div", element("dt", name), element("dd", value, element("small", more)))


def _interval(estimate: IntervalEstimate | None) -> str:
    if estimate is None or estimate.low is None or estimate.high is None:
        return "no interval"
    return f"{100 * estimate.low:.1f} to {100 * estimate.high:.1f}"
