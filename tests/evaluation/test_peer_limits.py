"""What bounds a product across two GPUs, and how far a fused path could be beaten there."""

from dataclasses import replace

import pytest

from wavesim.evaluation import peer_page
from wavesim.evaluation.peer_limits import BEST, COLUMNS, MUST, PeerLimit, limit_of, limits_block
from wavesim.evaluation.peer_timed import timed_lines

ONE = PeerLimit(
    "all-gather", (1024, 64, 64), library=100.0, own=110.0, link=50.0, memory=30.0, launch=8.0,
    fused=120.0, measured=150.0, best=115.0, put_right=125.0,
)  # fmt: skip


def test_the_longest_part_bounds_what_can_be_gained():
    assert (ONE.bound, ONE.most, ONE.most_of_ours) == ("SMs", 1.2, 120 / 118)
    crossing = replace(ONE, link=200.0)
    assert (crossing.bound, crossing.most, crossing.most_of_ours) == ("link", 0.6, 120 / 208)
    assert replace(ONE, memory=300.0).bound == "DRAM"


def test_the_block_says_what_is_in_reach_and_where():
    many = [ONE, replace(ONE, size=(2048, 64, 64), put_right=100.0), replace(ONE, size=(512, 64, 64))]
    many += [replace(ONE, kind="reduce-scatter")]
    gathered = limits_block(many).splitlines()[-1]
    assert "All-gather, 1,024 rows or more (2 shapes): bound by the SMs at 2." in gathered
    assert "1.20 times as fast as the fused path on cuBLAS's product, 1.02 on ours; at 2 shapes" in gathered
    assert gathered.endswith(f"which is {MUST} or more at: 2,048 x 64 x 64.")


@pytest.mark.parametrize("kind", BEST)
def test_the_page_has_the_limits_as_they_are_simulated(kind):
    page = peer_page.PAGE.read_text(encoding="utf-8")
    lines = [line for line in timed_lines() if line["kind"] == kind and "fused" in line["ways"]]
    rows = limits_block([limit_of(lines[0]), replace(ONE, kind="reduce-scatter"), ONE]).splitlines()
    assert rows[2] in page
    assert f"| | {' | '.join(COLUMNS)} |" in page
    shown = [row for row in page.partition("limits: begin")[2].splitlines() if row.startswith(f"| {kind}")]
    known = [" x ".join(f"{part:,}" for part in line["size"]) for line in lines]
    assert [row.split(" | ")[1] for row in shown[: len(known)]] == known


def test_what_crosses_is_half_of_the_rows_in_each_direction():
    (line,) = [
        line for line in timed_lines() if (line["kind"], line["size"]) == ("all-gather", [1024, 1408, 12288])
    ]
    one = limit_of(line)
    assert one.link == pytest.approx(1024 * 1408 / 374e3, rel=1e-6)
    assert one.most_of_ours < one.most
    assert one.bound == "SMs"
