"""What docs/layers.md says was measured is what the committed results say."""

import json
from pathlib import Path

from wavesim.evaluation.layer_graphs_table import newest_run, table_text

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "layers.md").read_text()


def test_the_ratios_are_those_of_the_newest_run_of_each_kind():
    newest = newest_run(ROOT / "gpu" / "results" / "layer_graphs")
    printed = table_text(newest)
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


def test_what_is_said_of_decode_attention_is_what_was_recorded():
    rows = json.loads((ROOT / "gpu" / "results" / "decode" / "2026-11-23.json").read_text())["rows"]
    whole = [row["over_copy"] for row in rows if row["splits"] == 1 and row["kv_megabytes"] >= 67]
    assert f"takes {min(whole):.2f} to {max(whole):.2f} times as long as its keys and values" in PAGE
    others = {
        (row["kv_megabytes"], row["splits"]): row["over_copy"] for row in rows if row["over_copy"] > 1.4
    }
    said = {(67, 2): "1.44", (34, 1): "1.53", (34, 2): "1.83", (17, 2): "2.61"}
    assert others.keys() == said.keys()
    assert all(abs(others[key] - float(word)) < 0.006 and word in PAGE for key, word in said.items())
