"""Times a Triton pair plainly and under plans, in every tile order: what synchronising costs, what it gives.

Example: `python gpu/examples/triton_variants.py 1536,8192,4096,6144` prints medians of interleaved rounds of
CUDA graphs, fastest first, against the fastest plain pair. `fetched` under "stream" is the plain order of
launches with fetched tiles: the difference to "plain" is what tile fetches, posts' places and zeroing cost.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
from triton_matmul import MatmulPair, graph_of, interleaved_us, medians_us

from wavesim.plan.parsing import parse_plan

GROUPS = (1, 4, 8)
PLANS = ("stream", "pdl+row", "pdl+tile", "row")


def main() -> int:
    """Checks that every variant gives the plain bits, then times all in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="?", default="1536,8192,4096,6144", help="m,k,n1,n2")
    parser.add_argument("--tile", default="128,256,64", help="rows, columns, depth")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--plans", default=",".join(PLANS))
    parser.add_argument("--json", type=Path, help="write every round to this file")
    options = parser.parse_args()
    tile = tuple(map(int, options.tile.split(",")))
    pair = MatmulPair(*map(int, options.sizes.split(",")), tile)
    operands = pair.operands()
    hidden, out = operands[3:]
    runs = {
        f"plain, groups of {group}": lambda group=group: pair.run_plain(operands, group) for group in GROUPS
    }
    for word in options.plans.split(","):
        for group in GROUPS:
            order = "row" if group == 1 else f"grouped:{group}"
            runs[f"{word} {order}"] = pair.synchronised(parse_plan(word, order), operands)
    pair.run_plain(operands, 1)
    pair.require_right(operands)
    wanted = out.clone()
    graphs = {}
    for name, run in runs.items():
        run()
        graphs[name] = graph_of(run)
        hidden.fill_(torch.nan)
        out.fill_(torch.nan)
        graphs[name].replay()
        if not torch.equal(out, wanted):
            raise ArithmeticError(f"{name}: not the plain pair's bits")
    rounds = interleaved_us(graphs, options.rounds)
    medians = medians_us(rounds)
    best = min(time for name, time in medians.items() if name.startswith("plain"))
    for name in sorted(medians, key=medians.__getitem__):
        print(f"{name:<24}{medians[name]:8.1f} us  {100 * (1 - medians[name] / best):+5.1f} points")  # noqa: T201
    if options.json:
        options.json.write_text(json.dumps({"pair": repr(pair), "rounds_us": rounds}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
