"""The predictions that the committed scores are of."""

import pytest

from wavesim.bench.jobs import flat
from wavesim.bench.prediction_store import committed_predictions
from wavesim.bench.scored_case import ScoredPrediction


@pytest.fixture(scope="session")
def predicted() -> list[ScoredPrediction]:
    """All that are committed; test_committed_predictions.py makes a third of them again."""
    return flat(committed_predictions())
