"""What the first call of an MLP shape costs: milliseconds, and of these how many NVRTC took.

Example: `python -m wavesim_gpu.bench.kinds.mlp_first_calls --cache DIR NAME...` is a second process on the
kernels and choices that another left in DIR. It prints a line of JSON for each shape; shapes that are known
have no compilations.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wavesim.safe_io.program import run_program
from wavesim_gpu.bench.kinds.mlp_contenders import mlp_run
from wavesim_gpu.bench.kinds.mlp_operands import LayerOperands, random_layer
from wavesim_gpu.bench.kinds.mlp_shapes import all_shapes
from wavesim_gpu.bench.libraries.torch_chain import require_torch
from wavesim_gpu.driver import compiler, cubin_cache

SECOND_LIMIT_S = 300


@dataclass
class Compilations:
    """When each began and ended, in seconds of one clock, and what was compiled."""

    spans: list[tuple[float, float]] = field(default_factory=list)
    what: list[str] = field(default_factory=list)

    def seconds(self) -> float:
        """How long at least one was under way."""
        total, reached = 0.0, float("-inf")
        for began, ended in sorted(self.spans):
            total += max(0.0, ended - max(began, reached))
            reached = max(reached, ended)
        return total


@contextmanager
def watched_compilations() -> Iterator[Compilations]:
    """What NVRTC does within."""
    result, build = Compilations(), compiler.build_and_keep

    def watched(request: compiler.Request) -> Any:
        result.what.append(f"{request.path.name}: {', '.join(request.names)}")
        began = time.perf_counter()
        try:
            return build(request)
        finally:
            result.spans.append((began, time.perf_counter()))

    compiler.build_and_keep = watched
    try:
        yield result
    finally:
        compiler.build_and_keep = build


def first_call(torch: Any, run: Callable[[LayerOperands], Any], operands: LayerOperands) -> dict[str, Any]:
    """One call until its result is there: `ms` without compiling, `compilations`, their `compile_ms`, and
    what was compiled.
    """
    torch.cuda.synchronize()
    with watched_compilations() as compiled:
        began = time.perf_counter()
        run(operands)
        torch.cuda.synchronize()
        took = time.perf_counter() - began
    return {
        "ms": round(1e3 * (took - compiled.seconds()), 3),
        "compilations": len(compiled.spans),
        "compile_ms": round(1e3 * compiled.seconds(), 3),
        "compiled": compiled.what,
    }


def in_second_process(cache: Path, names: Iterable[str]) -> list[dict[str, Any]]:
    """The first calls of shapes in a new process that shares the cache; an entry says if it failed."""
    command = [sys.executable, "-m", "wavesim_gpu.bench.kinds.mlp_first_calls", "--cache", str(cache)]
    try:
        done = subprocess.run(  # noqa: S603  # ourselves
            [*command, *names], capture_output=True, text=True, timeout=SECOND_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return [{"failed": f"no answer within {SECOND_LIMIT_S} s"}]
    result = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0:
        result.append({"failed": f"status {done.returncode}: {done.stderr.strip()[-300:]}"})
    return result


def main() -> int:
    """Prints each shape's first call."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, help="folder of kernels and choices")
    parser.add_argument("names", nargs="+", help="shapes, by name, in this order")
    options = parser.parse_args()
    cubin_cache.use(options.cache)
    torch = require_torch()
    by_name = {shape.name: shape for shape in all_shapes()}
    with torch.no_grad():
        for name in options.names:
            shape = by_name[name]
            try:
                operands = random_layer(torch, shape, seed=0)
                result = first_call(torch, mlp_run(shape), operands)
            except Exception as error:  # noqa: BLE001  # recorded, and the next shape is tried
                result = {"failed": f"{type(error).__name__}: {error}"}
            print(json.dumps({"name": name, **result}), flush=True)  # noqa: T201  # what it is for
    return 0


if __name__ == "__main__":
    sys.exit(run_program("layer_first_calls", main))
