"""Strengths of generators from their wins and ties, by evalica: Bradley and Terry's model with ties, as Newman computes it.

With the strengths s (natural logarithms), generator i beats j with a probability in proportion to exp(s_i), j beats i to exp(s_j),
and they tie to 2 v exp((s_i + s_j) / 2); v is estimated with the strengths. Newman (2023), JMLR 24, and Davidson (1970).
"""

from itertools import combinations, permutations
from types import ModuleType

import numpy as np

from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.ranking.outcomes import Counts

PRIOR = 0.5
"""Wins, and losses, of each generator against an opponent of average strength: a generator that always wins stays finite."""
TOLERANCE, LIMIT = 1e-7, 1000  # Of the iteration


def evalica() -> ModuleType:
    """The library. Raises BadInput where it is not installed."""
    try:
        import evalica as library
    except ImportError:
        raise BadInput("A ranking needs the package evalica: pip install -e '.[evaluate]'") from None
    return library


def fit_strengths(wins: Counts, ties: Counts) -> tuple[Counts, float]:
    """(strengths [n] with mean 0, v) from wins [n, n] and ties [n, n], symmetric; counts may be fractions."""
    library = evalica()
    n = len(wins)
    first, second = library.Winner.X, library.Winner.Y
    rows = [(i, j, first, wins[i, j]) for i, j in permutations(range(n), 2) if wins[i, j] > 0]
    rows += [(i, j, library.Winner.Draw, ties[i, j]) for i, j in combinations(range(n), 2) if ties[i, j] > 0]
    rows += [(i, n, winner, PRIOR) for i in range(n) for winner in (first, second)]
    xs, ys, winners, weights = zip(*rows, strict=True)
    result = library.newman(xs, ys, winners, weights=[float(each) for each in weights], tolerance=TOLERANCE, limit=LIMIT)
    scores = result.scores.to_dict()
    logarithms = np.log([scores[i] for i in range(n)])
    return logarithms - logarithms.mean(), float(result.v)


def outcome_variance(difference: Counts, v: float) -> Counts:
    """How uncertain the outcome of a pair is whose strengths differ by so much: the variance of its score (1, 0.5 or 0)."""
    half = np.exp(difference / 2)
    whole = half + 1 / half + 2 * v
    win, tie = half / whole, 2 * v / whole
    variance: Counts = win + tie / 4 - (win + tie / 2) ** 2
    return variance
