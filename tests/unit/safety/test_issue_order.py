"""What docs/safety.md says of the order of issue is what an H200 did, and what the rule takes for granted."""

import json
import re
from pathlib import Path

import pytest

from wavesim.safety.deadlock import LARGEST_CLUSTER

ROOT = Path(__file__).parents[3]
RECORD = json.loads((ROOT / "gpu/results/issue_order/2026-11-28.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs/safety.md").read_text(encoding="utf-8")
ROWS = {
    "shared memory, for a block or a grid of them; before a single block or a cluster of two": [
        "shared memory",
        "shared memory, a grid of them",
        "shared memory, beside two",
        "shared memory, before a cluster",
    ],
    "the carve-out": ["carve-out"],
    "the second SM of a cluster of two": [
        "a cluster's second SM",
        "a cluster's second SM, and the first is wanted",
    ],
    "two to eight SMs of a cluster of four or eight": [
        "a cluster's fourth SM",
        "a cluster's eighth SM",
        "all of a cluster's eight SMs",
    ],
    "shared memory, and the younger one's stream has a higher priority": [
        "shared memory, before a higher priority"
    ],
}


@pytest.mark.parametrize("row", ROWS)
def test_the_page_says_what_was_measured(row):
    said = re.search(rf"\| {re.escape(row)} \| (\d+) of 20", PAGE)
    assert said is not None
    for contests, share in ((RECORD["one_process"], 1), (RECORD["mps"]["one_process"], 4)):
        for name in ROWS[row]:
            assert contests[name]["younger_alone"] == contests[name]["trials"] == 20 // share
            assert contests[name]["older_began"] == 0
            assert contests[name]["younger_passed"] * share == int(said[1])


def test_processes_take_turns_without_mps_and_do_not_pass_with_it():
    assert RECORD["mps"]["two_processes"] == {"trials": 20, "younger_alone": 20, "younger_passed": 0}
    assert RECORD["time_sliced"]["younger_passed"] == 20


def test_default_carve_outs_shut_out_and_the_largest_do_not():
    assert RECORD["shut_out"] == {"trials": 20, "default": 20, "largest": 0}


def test_neighbours_take_clusters_of_two_and_no_larger_ones_are_judged():
    clusters = RECORD["clusters_of_two"]
    assert (clusters["neighbours"], clusters["neighbours_refused"]) == (66, [])
    assert len(clusters["strangers_taken"]) == 6
    assert LARGEST_CLUSTER == 2
