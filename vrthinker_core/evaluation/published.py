"""Published numbers (the paper's table 1, overall labels), for the data set and the metric that they were measured on."""

from dataclasses import dataclass

from vrthinker_core.evaluation.agreement import Metric

GENAI, VIDEOGEN, MJ = (
    "genai-bench",
    "videogen-reward",
    "mj-bench-video",
)  # As the command line calls them
MAX_BROKEN = (
    0.05  # Share of rows that cannot be judged, up to which a set is still the published one
)


@dataclass(frozen=True, slots=True)
class PublishedScore:
    """What a paper says of a model."""

    model: str
    value: float  # A share of 1


def _scores(*per_cent: float) -> tuple[PublishedScore, ...]:
    return tuple(
        PublishedScore(model, value / 100) for model, value in zip(MODELS, per_cent, strict=True)
    )


MODELS = (
    "VideoScore 7B", "VideoReward 2B", "VisionReward 13B", "LiFT 13B",
    "UnifiedReward 7B", "UnifiedReward-Think 7B", "VR-Thinker 7B",
)  # fmt: skip

PUBLISHED: dict[tuple[str, Metric], tuple[PublishedScore, ...]] = {
    (GENAI, "tau"): _scores(47.5, 49.9, 52.6, 38.1, 61.2, 64.7, 68.7),
    (GENAI, "diff"): _scores(70.9, 73.1, 72.7, 59.4, 76.8, 80.4, 82.3),
    (VIDEOGEN, "tau"): _scores(41.9, 60.8, 57.9, 40.1, 67.1, 69.7, 71.8),
    (VIDEOGEN, "diff"): _scores(50.2, 73.8, 68.4, 57.9, 78.6, 79.1, 80.5),
    (MJ, "tau"): _scores(57.9, 56.8, 54.1, 42.5, 63.3, 62.8, 67.3),
    (MJ, "diff"): _scores(63.5, 62.6, 65.2, 51.4, 69.5, 71.9, 75.6),
}

ROWS = {GENAI: ((1069, 1069), (1889, 1889)), VIDEOGEN: ((26_000, 27_000),), MJ: ((1085, 1085),)}
"""How many rows each published set has, from and to; GenAI-Bench has two files."""

REMARKS = {
    GENAI: "GenAI-Bench has two test files, and the paper does not say which one its numbers are from.",
    MJ: (
        "On MJ-Bench-Video an answer that is always a tie scores a tau of 89.0 % on the 1,077 rows that count (88.4 % with those "
        "that were hard to judge counted as wrong), above every published model."
    ),
}


def published(data_set: str, metric: Metric, rows: int, broken: int) -> tuple[PublishedScore, ...]:
    """What was published for overall labels of that set; () unless the results are of all its rows, few of them broken."""
    whole = any(low <= rows <= high for low, high in ROWS.get(data_set, ()))
    return PUBLISHED[data_set, metric] if whole and broken <= MAX_BROKEN * rows else ()


def published_remark(data_set: str, rows: int, broken: int) -> str:
    """What must be known beside published numbers, or why there are none; "" for a data set without any."""
    if data_set not in ROWS:
        return ""
    known = REMARKS.get(data_set, "")
    if published(data_set, "tau", rows, broken):
        return known
    sizes = " or ".join(
        f"{low:,}" if low == high else f"about {(low + high) // 2:,}"
        for low, high in ROWS[data_set]
    )
    left_out = f"Published numbers are left out: they are of all {sizes} rows, and this is of {rows - broken:,} that can be judged."
    return f"{left_out} {known}".strip()
