"""Facts of the drawn world: wrong ones are counted, changed as asked for, and a prompt says what is wanted and no more."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vrthinker_core.drawn.facts import (
    COLOURS,
    COUNT_WORDS,
    DIRECTIONS,
    SceneFacts,
    Thing,
    in_order,
    write_prompt,
)
from vrthinker_core.drawn.solids import SHAPES
from vrthinker_core.drawn.world import FULL, SIMPLE, World, draw_facts, with_wrong

things = st.builds(
    Thing, st.sampled_from(list(COLOURS)), st.sampled_from(SHAPES), st.integers(1, 4)
)
some_things = st.lists(things, max_size=2, unique_by=lambda thing: thing.colour).map(
    lambda found: in_order(*found)
)
some_facts = st.builds(SceneFacts, some_things, st.sampled_from(list(DIRECTIONS)), st.just("sand"))


@settings(max_examples=150, deadline=None)
@given(some_facts, some_facts)
def test_wrong_facts_are_counted_the_same_from_both_sides(
    one: SceneFacts, other: SceneFacts
) -> None:
    assert one.count_wrong(one) == 0
    assert one.count_wrong(other) == other.count_wrong(one) <= 8
    assert one == other or one.count_wrong(other) > 0


@pytest.mark.parametrize(
    ("shown", "wrong"),
    [
        ((Thing("red", "ball"), Thing("blue", "cube", 2)), 0),
        ((Thing("red", "ball"),), 1),
        ((Thing("green", "ball"), Thing("blue", "cube", 2)), 1),
        ((Thing("red", "ball", 2), Thing("blue", "cube", 2)), 1),
        ((Thing("blue", "cube", 3), Thing("white", "ring")), 3),
        ((Thing("purple", "cone", 3),), 4),
        ((), 2),
    ],
)
def test_things_are_compared_with_those_that_fit_best(shown: tuple[Thing, ...], wrong: int) -> None:
    wanted = SceneFacts((Thing("red", "ball"), Thing("blue", "cube", 2)), "left", "sand")
    assert wanted.count_wrong(SceneFacts(shown, "left", "sand")) == wrong
    assert wanted.count_wrong(SceneFacts(shown, "right", "sand")) == wrong + 1


def test_things_of_one_colour_or_in_another_order_are_refused() -> None:
    for colours in (("red", "red"), ("blue", "red")):
        with pytest.raises(ValueError, match="COLOURS"):
            SceneFacts(tuple(Thing(colour, "ball") for colour in colours), "left", "sand")


def read_things(prompt: str) -> tuple[Thing, ...]:
    """The things that a prompt asks for, in the order in which it names them."""
    counts, shapes = "|".join(("an?", *COUNT_WORDS[1:])), "|".join(SHAPES)
    words = rf"\b({counts}) ({'|'.join(COLOURS)}) ({shapes})(s?)\b"
    found = []
    for count, colour, shape, plural in re.findall(words, prompt, re.IGNORECASE):
        one = count.lower() not in COUNT_WORDS[1:]
        assert one == (plural == "")
        assert not one or count.lower() == ("an" if colour == "orange" else "a")
        found.append(Thing(colour, shape, 1 if one else COUNT_WORDS.index(count.lower()) + 1))
    return tuple(found)


@settings(max_examples=150, deadline=None)
@given(some_facts.filter(lambda facts: facts.things), st.integers(0, 2**32))
def test_a_prompt_says_what_is_wanted_and_no_more(wanted: SceneFacts, seed: int) -> None:
    prompt = write_prompt(np.random.default_rng(seed), wanted)
    assert read_things(prompt) == wanted.things
    sides = {name: name for name in ("right", "left", "away")}
    sides["closer"] = "closer|towards the camera"
    said = [name for name, words in sides.items() if re.search(rf"\b({words})\b", prompt)]
    assert said == [wanted.direction]
    assert "sand" in prompt.lower()
    alone = sum(thing.count for thing in wanted.things) == 1
    verb = re.search(r"\b(roll|move|slide|drift|travel)(s?)\b", prompt)
    assert verb is None or (verb[2] == "s") == alone
    assert not prompt.endswith(".") or prompt[0].isupper()


@pytest.mark.parametrize("world", [SIMPLE, FULL], ids=["simple", "full"])
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**63), st.integers(1, 3))
def test_as_many_facts_are_changed_as_are_asked_for(world: World, seed: int, wrong: int) -> None:
    rng = np.random.default_rng(seed)
    wanted = draw_facts(rng, world)
    assert wanted.count_wrong(with_wrong(rng, wanted, wrong, world)) == wrong
