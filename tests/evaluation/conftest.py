"""The predictions of every stored measurement, made once and shared."""

from pathlib import Path

import pytest
from scored_once import idle_processes, scored_once

from wavesim.evaluation.scored_case import ScoredPrediction
from wavesim.evaluation.validation import all_predictions


@pytest.fixture(scope="session")
def predicted(pytestconfig: pytest.Config) -> list[ScoredPrediction]:
    """All predictions of the code as it is; takes minutes where none of it is known yet."""
    folder = Path(pytestconfig.rootpath) / ".pytest_cache" / "scores"
    return scored_once(folder, lambda: all_predictions(processes=idle_processes()))
