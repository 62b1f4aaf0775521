"""What docs/layers.md says was measured is what the committed results say."""

import json
from pathlib import Path

from wavesim.evaluation.layer_graphs_table import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "layers.md").read_text()


def test_the_ratios_are_those_of_the_newest_run(capsys):
    newest = max((ROOT / "gpu" / "results" / "layer_graphs").glob("*.json"))
    assert main([str(newest)]) == 0
    printed = capsys.readouterr().out
    ratios = [line for line in printed.partition("| case |")[0].splitlines() if line.startswith("|")]
    assert len(ratios) > 5
    assert all(line in PAGE for line in ratios)


def test_the_times_of_chained_products_are_those_recorded():
    recorded = json.loads((ROOT / "gpu" / "results" / "chained" / "2026-11-22.json").read_text())["rows"]
    wanted = [
        row["median_us"]
        for row in recorded
        if (row["plan"], row["backend"])
        in {
            ("stream", "hopper"),
            ("pdl+tile", "hopper"),
            ("pdl+tile", "hopper-chained"),
            ("persistent+pdl+row", "hopper"),
        }
    ]
    assert len(wanted) == 20
    assert all(f" {value:,.1f} |" in PAGE for value in wanted)
