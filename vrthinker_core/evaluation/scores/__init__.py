"""Statistics of results: agreement with people, and what a judge does besides. No figure depends on the order of the rows."""

from vrthinker_core.evaluation.scores.judge_comparison import JudgeComparison, compare_judges
from vrthinker_core.evaluation.scores.summary import Summary, summarize
from vrthinker_core.evaluation.scores.tie_threshold import TieThreshold, tie_threshold

__all__ = [
    "JudgeComparison",
    "Summary",
    "TieThreshold",
    "compare_judges",
    "summarize",
    "tie_threshold",
]
