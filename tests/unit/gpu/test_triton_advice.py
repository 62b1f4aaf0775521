"""The registered Triton pairs: sizes, advice from kernels' times, the table, and what is said of it."""

import hashlib
import importlib
import json
import sys
import tomllib
from pathlib import Path
from statistics import median

import pytest

from wavesim.model.device import load
from wavesim.model.kernel import Block

EXAMPLES = Path(__file__).parents[3] / "gpu" / "examples"
PAIRS = tomllib.loads((EXAMPLES / "triton_registered.toml").read_text(encoding="utf-8"))["pairs"]
ALONE = Block(threads=256, registers=232, dynamic_shared_bytes=147_456)  # one on an SM


@pytest.fixture
def example(monkeypatch):
    """Imports an example by name."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield importlib.import_module
    for name in ("triton_matmul", "triton_registered", "triton_table"):
        sys.modules.pop(name, None)


def test_ten_pairs_are_written_down_that_the_kernel_can_run():
    assert len({pair["name"] for pair in PAIRS}) == len(PAIRS) == 10
    for pair in PAIRS:
        assert pair["sizes"]["k"] % 64 == pair["sizes"]["n1"] % 64 == pair["sizes"]["n2"] % 16 == 0
    assert sum(pair["sizes"]["m"] % pair["tile"][0] != 0 for pair in PAIRS) == 2


@pytest.mark.parametrize(
    ("name", "up_us", "down_us", "is_advised"),
    [("1536-tokens", 170.0, 135.0, True), ("full-waves", 66.0, 66.0, False)],
)
def test_advice_is_a_plan_where_last_waves_are_poor_and_to_leave_it_where_they_are_full(
    example, name, up_us, down_us, is_advised
):
    pytest.importorskip("triton", reason="Triton is not installed")
    pytest.importorskip("torch", reason="PyTorch is not installed")
    module = example("triton_registered")
    entry = next(pair for pair in PAIRS if pair["name"] == name)
    pair = module.MatmulPair(**entry["sizes"], tile=(*entry["tile"], 64))
    case = module.Case(name, pair, (), dict.fromkeys(module.STAGES, ALONE))
    # In groups of eight rows the kernels are the fastest.
    times = {group: {"up": up_us - group, "down": down_us - group} for group in module.ORDERS}
    found = module.advice(case, times, load("h200"))
    assert found["stream_order"] == "grouped:8"
    assert found["is_advised"] is is_advised
    assert found["low"] <= found["points"] <= found["high"]
    assert (found["points"] > 5) is is_advised


def results(folder, measured_us, is_advised=True, points=10.0):
    """A folder of one pair: 400 us on one stream."""
    facts = {
        "device": "h200",
        "date": "2026-11-22T00:00:00Z",
        "commit": "0123456789",
        "versions": {"triton": "3"},
    }
    pair = {"name": "pair", "plan": ["pdl+row", "row"], "is_advised": is_advised, "points": points}
    text = json.dumps({"pairs": [{**pair, "low": points - 3, "high": points + 3}]})
    (folder / "predictions.json").write_text(text)
    rounds = {"stream": [400.0] * 20, "plan": [measured_us] * 20}
    stamp = hashlib.sha256(text.encode()).hexdigest()
    measured = {**facts, "predictions_sha256": stamp, "pairs": [{"name": "pair", "rounds_us": rounds}]}
    (folder / "measured.json").write_text(json.dumps(measured))


@pytest.mark.parametrize(
    ("measured_us", "is_advised", "points", "holds"),
    [
        (380.0, True, 10.0, True),  # half of ten points
        (381.0, True, 10.0, False),
        (403.0, True, 3.0, True),  # no promise of five; less than a percent slower
        (405.0, True, 3.0, False),
        (450.0, False, 0.5, True),  # it was left alone
    ],
)
def test_advice_holds_where_it_costs_no_percent_and_half_of_a_promise_arrives(
    example, tmp_path, measured_us, is_advised, points, holds
):
    table = example("triton_table")
    results(tmp_path, measured_us, is_advised, points)
    (row,) = table.load(tmp_path)[1]
    assert row.holds is holds
    assert f"Advice held for {int(holds)} of 1 pairs" in table.page(tmp_path)


def test_predictions_that_were_changed_afterwards_are_refused(example, tmp_path):
    table = example("triton_table")
    results(tmp_path, 380.0)
    table.write(tmp_path, tmp_path / "summary.json")
    assert json.loads((tmp_path / "summary.json").read_text())["pairs"][0]["measured"] == pytest.approx(5.0)
    path = tmp_path / "predictions.json"
    path.write_text(path.read_text().replace("10.0", "11.0"))
    with pytest.raises(ValueError, match="not the one that was registered"):
        table.load(tmp_path)


def test_the_table_and_the_summary_are_what_the_measured_files_give(example, tmp_path):
    table = example("triton_table")
    assert (table.RESULTS / "table.md").read_text(encoding="utf-8") == table.page()
    for name in ("predictions.json", "measured.json"):
        (tmp_path / name).write_bytes((table.RESULTS / name).read_bytes())
    table.write(tmp_path, tmp_path / "summary.json")
    assert (tmp_path / "summary.json").read_text() == table.SUMMARY.read_text()
    facts, _ = table.load()
    assert (
        facts["pairs_sha256"]
        == hashlib.sha256((EXAMPLES / "triton_registered.toml").read_bytes()).hexdigest()
    )
    assert [pair["name"] for pair in facts["pairs"]] == [pair["name"] for pair in PAIRS]


def test_what_is_said_of_the_ten_pairs_was_measured(example):
    facts, rows = example("triton_table").load()
    day, commit, triton = facts["date"][:10], facts["commit"][:7], facts["versions"]["triton"]
    words = " ".join((EXAMPLES.parents[1] / "docs" / "evidence.md").read_text(encoding="utf-8").split())
    assert f"H200, {day}, commit {commit}, Triton {triton}: from the times" in words
    errors = {row.name: abs(row.points - row.measured) for row in rows}
    largest = next(row for row in rows if errors[row.name] == max(errors.values()))
    assert (
        f"The median error is {median(errors.values()):.1f} points. "
        f"The largest is {errors[largest.name]:.1f}: {largest.name} was predicted to gain" in words
    )
    assert (
        f"{largest.name} was predicted to gain {largest.points:.1f} and gained {largest.measured:.1f}"
        in words
    )
    assert sum(row.low <= row.measured <= row.high for row in rows) == 8
    promised = [row for row in rows if row.points >= 5]
    shares = [row.measured / row.points for row in promised]
    assert len(promised) == 5
    assert f"at least half arrived: {int(100 * min(shares))} % of it or more" in words
    (sixth,) = [row for row in rows if row.is_advised and row not in promised]
    assert f"predicted {sixth.points:+.1f}, measured {sixth.measured:+.1f}" in words
    left = sorted((row.measured, row.name) for row in rows if not row.is_advised)
    assert len(left) == 4
    assert f"from {left[0][0]:.1f} to {left[-1][0]:+.1f} points; the worst is {left[0][1]}" in words
    text = (EXAMPLES / "advice_pairs.py").read_text(encoding="utf-8")
    seen = [
        pair["name"] for pair in PAIRS if f"TritonPair({', '.join(map(str, pair['sizes'].values()))})" in text
    ]
    assert f"Three of the ten, {', '.join(sorted(seen)[:2])} and {sorted(seen)[2]}, have sizes" in words
    without = median(error for name, error in errors.items() if name not in seen)
    assert f"Without the three the median error is {without:.1f} as well" in words
