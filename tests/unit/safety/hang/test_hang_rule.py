"""The rule of `why-hang` against every way that a small situation can go."""

import json
from pathlib import Path

import pytest
from hang_counts import TRAITS, TRUSTS, WHAT, count, summary
from hang_search import HangSearch

from wavesim.model.device import load
from wavesim.model.kernel import Block
from wavesim.safety.hang.situation import BlockWait, DevicePart, Situation
from wavesim.safety.hang.verdict import judge
from wavesim.sim.streams.stream_order import StreamOperation

COUNTS = Path(__file__).parents[3] / "data" / "hang" / "counts.json"


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


def test_a_later_round_of_the_same_kernels_changes_nothing():
    """The consumer of the second round comes after the first one, and so after the second producer."""
    block = load("toy").max_warps_per_sm * 32
    operations = [
        StreamOperation(
            f"{name} #{turn}", "gpu0", blocks=2, block=Block(block), stream=name, is_blocking=False
        )
        for turn in (1, 2)
        for name in ("producer", "consumer")
    ]
    waits = [BlockWait(f"consumer #{turn}", f"producer #{turn}") for turn in (1, 2)]
    situation = Situation("rounds", [DevicePart("gpu0", load("toy").with_sm_count(2))], operations, waits)
    assert HangSearch(situation, "room").finds_hang()
    assert not HangSearch(situation, "order").finds_hang()
    verdict = judge(situation)
    assert (verdict.can_hang, verdict.hangs_as_seen) == (True, False)
