"""Shipped device files are made by `characterise`, nothing by hand: each follows from its raw results."""

from pathlib import Path

import pytest

from wavesim.costs.constants import MEASURED
from wavesim.model.device import catalogue_name
from wavesim.safe_io.documents import read_json
from wavesim_gpu.characterise.command import text_from

RESULTS = Path(__file__).parents[4] / "gpu" / "results" / "characterise"
MOST_BYTES = 1 << 20


def newest() -> dict[str, Path]:
    """The newest raw results of each device, by its name in the catalogue."""
    found = {}
    for path in sorted(RESULTS.glob("*.json*")):
        whole = read_json(path, MOST_BYTES)
        found[catalogue_name(whole["device"]["name"])] = path
    return found


@pytest.mark.parametrize("path", sorted(MEASURED.glob("*.toml")), ids=lambda path: path.stem)
def test_a_shipped_file_is_what_its_raw_results_make(path: Path):
    raw = newest()[path.stem]
    assert path.read_text(encoding="utf-8") == text_from(read_json(raw, MOST_BYTES))
