"""A vote: what it may hold, and what it says of a verdict."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrthinker_core.types import Dimension, Preference, Verdict, Vote
from vrthinker_core.types.comparison import MAX_DECIDING, MAX_NOTE

AT = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)
LABELS = st.sampled_from([None, *Preference])
VERDICTS = st.builds(Verdict, TA=LABELS, MQ=LABELS, VQ=LABELS, OA=LABELS)


@given(VERDICTS, VERDICTS)
def test_only_what_both_have_said_is_compared(own: Verdict, judges: Verdict) -> None:
    compared = Vote(AT, own).compare(judges)
    for (dimension, mine), (_, theirs) in zip(own, judges, strict=True):
        assert (dimension in compared) is (mine is not None and theirs is not None)
        assert compared.get(dimension, False) is (mine is not None and mine is theirs)


@given(VERDICTS, VERDICTS, st.sampled_from([None, True, False]))
def test_nobody_agrees_with_a_verdict_they_contradict(
    own: Verdict, judges: Verdict, said: bool | None
) -> None:
    agreed = Vote(AT, own, said).agrees_with(judges)
    differs = not all(Vote(AT, own).compare(judges).values())
    assert (agreed is False) is (differs or said is False)
    if agreed is None:
        assert said is None
        assert not Vote(AT, own).compare(judges)


def test_a_vote_agrees_with_its_own_labels_and_says_nothing_of_no_verdict() -> None:
    for labels in product([None, *Preference], repeat=2):
        own = Verdict(TA=labels[0], OA=labels[1])
        assert Vote(AT, own).agrees_with(own) is (True if own.labels else None)
        assert Vote(AT, own).agrees_with(None) is None
        assert Vote(AT, own).empty is (own.labels == {})
    assert Vote(AT, Verdict(TA=Preference.TIE)).compare(Verdict(TA=Preference.TIE)) == {
        Dimension.TA: True
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"at": datetime(2026, 11, 22, 9, 30)},
        {"at": datetime(1, 1, 1, tzinfo=UTC)},
        {"note": "x" * (MAX_NOTE + 1)},
        {"slots": tuple(range(MAX_DECIDING + 1))},
        {"slots": (16, 16)},
        {"slots": (-1,)},
    ],
    ids=str,
)
def test_what_cannot_be_a_vote_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"vote"):
        Vote(**{"at": AT, **changes})  # type: ignore[arg-type]
