"""What is said of the four real profiler traces, computed once for all modules here."""

import pytest
from kineto_traces import REAL, advice_of

from wavesim.profile.advice import Advice


@pytest.fixture(scope="session")
def advices() -> dict[str, Advice]:
    return {name: advice_of(path) for name, path in REAL.items()}
