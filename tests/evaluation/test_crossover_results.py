"""Measured crossovers that ship: each is of its registered predictions, and the page quotes it."""

from pathlib import Path

import pytest

from wavesim.evaluation.crossover_runs import CLOSE_FACTOR, score_run

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "gpu" / "results" / "crossover"
RUNS = sorted(path for path in FOLDER.glob("*.json") if ".registered" not in path.name)


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_a_run_is_of_all_families_and_right_everywhere(path):
    found = score_run(path.with_suffix(".registered.json"), path)
    assert len(found.families) == 30
    assert found.failures == ()


def test_the_page_quotes_every_run():
    page = " ".join((ROOT / "docs" / "crossover.md").read_text().split())
    for path in RUNS:
        found = score_run(path.with_suffix(".registered.json"), path)
        close = sum(family.factor <= CLOSE_FACTOR for family in found.families)
        assert f"{close} of 30" in page, path.name
        assert f"{found.regret_percent:.1f} %" in page, path.name
        assert f"{found.always_percent('stream'):.1f} %" in page, path.name
