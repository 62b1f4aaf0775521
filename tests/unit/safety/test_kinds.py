"""The safety rule against brute force on clusters, split-K, Stream-K and two copies: `make safety-cases`."""

from collections import Counter

import pytest
from safety_kinds import KINDS, outcome


@pytest.mark.parametrize("kind", KINDS)
def test_no_plan_that_is_called_safe_can_deadlock_and_few_that_cannot_are_refused(kind):
    counts = Counter(outcome(kind, seed, most_states=400) for seed in range(90_000, 90_080))
    assert counts["unsafe, accepted"] == 0
    assert counts["safe, accepted"] >= 5
    assert counts["safe, refused"] <= 0.05 * counts["safe, accepted"]
    assert kind == "Stream-K" or counts["unsafe, refused"] >= 5
