"""The enumerator gives the published results of the PTX memory model."""

import pytest

from wavesim.litmus import outcomes
from wavesim.litmus.protocol import PublishedTest, published


def test_there_are_enough_published_tests_and_each_says_something():
    assert len(published()) >= 25
    assert len({case.name for case in published()}) == len(published())
    assert all(case.source and (case.allowed or case.forbidden) for case in published())


@pytest.mark.parametrize("case", published(), ids=lambda case: case.name)
def test_outcomes_are_as_published(case: PublishedTest):
    result = outcomes(case.test)
    missing = [c.text for c in case.allowed if not any(map(c.holds, result))]
    present = [c.text for c in case.forbidden if any(map(c.holds, result))]
    assert (missing, present) == ([], []), sorted(result)
