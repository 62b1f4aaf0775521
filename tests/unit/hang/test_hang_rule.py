"""The rule of `why-hang` against every way that a small situation can go."""

import json
from pathlib import Path

import pytest
from hang_counts import TRAITS, TRUSTS, WHAT, count, summary

COUNTS = Path(__file__).parents[2] / "data" / "hang" / "counts.json"


@pytest.mark.parametrize("trust", TRUSTS)
def test_no_situation_that_can_hang_is_called_safe(trust):
    found = summary(count(range(100_000, 100_120), trust, most_states=1_500))
    assert found["cases"] >= 100
    assert found["unsafe"] >= 10
    assert found["unsafe_called_safe"] == 0
    assert found["safe_refused"] <= 6


def test_neither_does_the_rule_for_many_operations():
    found = summary(count(range(100_000, 100_120), "bound", most_states=1_500))
    assert found["unsafe"] >= 10
    assert found["unsafe_called_safe"] == 0


def test_what_is_said_to_hang_for_certain_has_no_end():
    found = summary(count(range(100_000, 100_200), "certain", most_states=1_500))
    assert found["unsafe"] >= 10
    assert found["safe_refused"] == 0


def test_the_committed_counts_have_every_rule():
    found = json.loads(COUNTS.read_text(encoding="utf-8"))
    assert list(found) == list(WHAT)
    assert found["bound"]["unsafe_called_safe"] == 0
    assert found["certain"]["safe_refused"] == 0


@pytest.mark.parametrize("trust", TRUSTS)
def test_the_committed_counts_reach_the_threshold(trust):
    found = json.loads(COUNTS.read_text(encoding="utf-8"))[trust]
    assert found["cases"] >= 5_000
    assert found["unsafe_called_safe"] == 0
    assert found["safe_refused_share"] <= 0.03


@pytest.mark.parametrize("trust", TRUSTS)
def test_the_committed_counts_have_what_a_rule_could_overlook(trust):
    found = json.loads(COUNTS.read_text(encoding="utf-8"))[trust]["of_them"]
    assert found == {trait: found[trait] for trait in sorted(TRAITS)}
    assert min(found.values()) >= 1_000
