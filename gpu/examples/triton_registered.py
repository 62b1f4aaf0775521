"""Ten Triton pairs: each kernel timed alone, then advice, written down and hashed, then tile sync.

Example: `python gpu/examples/triton_registered.py` on a GPU, with simpy installed, writes predictions.json,
whose SHA-256 it prints, and then measured.json, which carries that hash, both into gpu/results/triton.
`triton_table.py` compares; it needs no GPU. Wanted: what follows the advice is nowhere more than a percent
slower than stream sync, and where five points or more were promised, at least half arrives.
"""

import argparse
import hashlib
import json
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
from triton_matmul import STAGES, MatmulPair, Operands, block_of, graph_of, interleaved_us, medians_us

from wavesim.costs.device_costs import costs_of
from wavesim.model.device import Device
from wavesim.model.kernel import Block
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan, StreamSync
from wavesim.predict.forecast import HELPS_POINTS, forecast_of
from wavesim.predict.kernel_times import costs_from_kernel_times
from wavesim.predict.kinds import kernel_times_kind
from wavesim.predict.prediction import improvement_points, sustained_points
from wavesim.predict.verdict import NO_BETTER_POINTS
from wavesim.safe_io.writing import write_text
from wavesim.sim.simulation import simulate
from wavesim_gpu.driver.device import query
from wavesim_gpu.runner import current_commit

HERE = Path(__file__).parent
PAIRS = HERE / "triton_registered.toml"
RESULTS = HERE.parent / "results" / "triton"
TILE_K = 64
ORDERS = {1: "row", 4: "grouped:4", 8: "grouped:8"}  # by tile rows in a group; the simplest first
PLANS = ("pdl+row", "pdl+tile")  # the simplest first: a plan is chosen only if it is clearly better
ALONE_ROUNDS, ROUNDS = 10, 20
Times = dict[int, dict[str, float]]  # microseconds of each kernel alone, by tile rows in a group


@dataclass(frozen=True)
class Case:
    """A pair with its operands, and what its compiled kernels occupy."""

    name: str
    pair: MatmulPair
    operands: Operands
    blocks: Mapping[str, Block]


def prepared(entry: Mapping[str, Any]) -> Case:
    """Compiles a pair's plain kernels and checks them against a product in single precision."""
    pair = MatmulPair(**entry["sizes"], tile=(*entry["tile"], TILE_K))
    operands = pair.operands()
    for group in ORDERS:
        for made in operands[3:]:  # what an order leaves out must not be there from the one before
            made.fill_(torch.nan)
        kernels = [pair.launch(number, operands, group) for number in range(len(STAGES))]
        pair.require_right(operands)
    blocks = {stage: block_of(kernel) for stage, kernel in zip(STAGES, kernels, strict=True)}
    return Case(entry["name"], pair, operands, blocks)


def times_alone(case: Case) -> Times:
    """Each kernel by itself, in every tile order."""
    graphs = {
        f"{group} {stage}": graph_of(partial(case.pair.launch, number, case.operands, group))
        for group in ORDERS
        for number, stage in enumerate(STAGES)
    }
    found = medians_us(interleaved_us(graphs, ALONE_ROUNDS))
    return {group: {stage: found[f"{group} {stage}"] for stage in STAGES} for group in ORDERS}


def advice(case: Case, times: Times, device: Device) -> dict[str, Any]:
    """What `wavesim predict` does, with plans that Triton kernels run: all from the kernels' own times.

    Stream sync takes its fastest order; every plan is simulated with the times of its own. `plan` is the
    best plan, `is_advised` whether it is predicted to help by a point or more.
    """
    pipeline, known = case.pair.described(case.blocks), costs_of(device.name)
    group = min(times, key=lambda one: sum(times[one].values()))

    def simulated(plan: Plan, rows: int) -> Any:
        kernel_ns = {stage: round(1e3 * us) for stage, us in times[rows].items()}
        return simulate(pipeline, plan, device, costs_from_kernel_times(pipeline, device, kernel_ns))

    stream = simulated(StreamSync(parse_plan("stream", ORDERS[group]).order), group)
    plans = {
        (word, order): simulated(parse_plan(word, order), rows)
        for rows, order in ORDERS.items()
        for word in PLANS
    }
    gains = {
        key: sustained_points(improvement_points(trace.time_ns, stream.time_ns), known.clock_share)
        for key, trace in plans.items()
    }
    best = next(key for key, gain in gains.items() if gain >= max(gains.values()) - NO_BETTER_POINTS)
    most = max(info.blocks_per_sm for info in stream.header.stages)
    found = forecast_of(gains[best], plans[best], kernel_times_kind(pipeline, device, most), device.name)
    return {
        "stream_order": ORDERS[group],
        "plan": list(best),
        "is_advised": gains[best] >= HELPS_POINTS,
        "points": gains[best],
        "low": found.low,
        "high": found.high,
        "scored": found.scored,
        "stream_us": stream.time_ns / 1e3,
        "all_points": {" ".join(key): gain for key, gain in gains.items()},
    }


def measured(case: Case, advised: Mapping[str, Any]) -> dict[str, list[float]]:
    """Rounds of the plain pair and of the best plan, advised or not, in turns. Both give the same bits.

    Raises `ArithmeticError` if they do not, before or after; `DeadlockError` if a wait ran out of time.
    """
    out = case.operands[-1]
    group = next(rows for rows, order in ORDERS.items() if order == advised["stream_order"])
    plain = partial(case.pair.run_plain, case.operands, group)
    plain()
    wanted = out.clone()
    synchronised = case.pair.synchronised(parse_plan(*advised["plan"]), case.operands)
    graphs = {"stream": graph_of(plain), "plan": graph_of(synchronised)}
    _require_bits(case, graphs, wanted)
    rounds = interleaved_us(graphs, ROUNDS)
    _require_bits(case, graphs, wanted)
    synchronised().check()  # its report is of every replay
    return rounds


def _require_bits(case: Case, graphs: Mapping[str, torch.cuda.CUDAGraph], wanted: torch.Tensor) -> None:
    hidden, out = case.operands[3:]
    for name, graph in graphs.items():
        hidden.fill_(torch.nan)
        out.fill_(torch.nan)
        graph.replay()
        if not torch.equal(out.view(torch.int16), wanted.view(torch.int16)):
            raise ArithmeticError(f"{case.name}, {name}: not the plain pair's bits")


def main() -> int:
    """All of it, in this order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for both files")
    parser.add_argument("--commit", help="commit of the kernels, where git cannot tell")
    options = parser.parse_args()
    device = query()
    facts = {
        "device": device.name,
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": options.commit or current_commit(),
        "versions": {"torch": torch.__version__, "triton": triton.__version__},
        "pairs_sha256": hashlib.sha256(PAIRS.read_bytes()).hexdigest(),
    }
    cases = [prepared(entry) for entry in tomllib.loads(PAIRS.read_text())["pairs"]]
    registered = []
    for case in cases:
        times = times_alone(case)
        registered.append({"name": case.name, "kernels_us": times, **advice(case, times, device)})
        say(f"{case.name}: {registered[-1]['plan']} {registered[-1]['points']:+.1f} points predicted")
    text = json.dumps({**facts, "pairs": registered}, indent=1) + "\n"
    write_text(options.out / "predictions.json", text)
    stamp = hashlib.sha256(text.encode()).hexdigest()
    say(f"predictions.json written, SHA-256 {stamp}; no synchronised kernel has run yet")
    found = []
    for case, advised in zip(cases, registered, strict=True):
        rounds = measured(case, advised)
        found.append({"name": case.name, "rounds_us": rounds})
        say(f"{case.name}: {medians_us(rounds)} us measured")
        write_text(  # after every pair: a later one that fails takes nothing away
            options.out / "measured.json",
            json.dumps({**facts, "predictions_sha256": stamp, "pairs": found}) + "\n",
        )
    return 0


def say(text: str) -> None:
    """How far it is."""
    print(text, flush=True)  # noqa: T201  # a command


if __name__ == "__main__":
    sys.exit(main())
