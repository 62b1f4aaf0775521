"""The registered Triton pairs: sizes, advice from kernels' times, the table, and changed predictions."""

import hashlib
import importlib
import json
import sys
import tomllib
from pathlib import Path

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
