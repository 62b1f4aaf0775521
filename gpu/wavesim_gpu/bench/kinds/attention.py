"""Prefill attention beside PyTorch's: our kernel under plans, cuDNN's and FlashAttention-2, in turns.

Example: `python -m wavesim_gpu.bench.kinds.attention --out attention.json` on a GPU with PyTorch prints
a line per shape and writes every round. All contenders read the same arrays, run as CUDA graphs in one
process, in an order that is drawn anew each round, and are compared with a float32 reference first.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from wavesim.errors import WavesimError
from wavesim.model.attention import Attention
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.safe_io.program import run_program
from wavesim.safe_io.writing import write_text
from wavesim_gpu.bench.libraries.torch_chain import require_torch
from wavesim_gpu.driver.device import query, require_cupy, versions
from wavesim_gpu.driver.element_types import TOLERANCE, to_float32
from wavesim_gpu.driver.kernel_sources import source_hash
from wavesim_gpu.kernels.backends import backend_of
from wavesim_gpu.run.operands import Operands
from wavesim_gpu.run.references import reference
from wavesim_gpu.run.runner import CupyRunner, current_commit
from wavesim_gpu.run.timing import Contender, interleaved_ns

BACKEND, STAGE = "hopper", "attention"
PLANS = {
    "longest first": parse_plan("persistent+graph+boundary", "reversed:row"),
    "shortest first": parse_plan("persistent+graph+boundary", "row"),
    "block per tile": parse_plan("tile+graph+boundary", "reversed:row"),
}
TORCH = {"cuDNN": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION"}
RIVAL = "cuDNN"
ROUNDS, REPEATS = 20, 5
TOKENS = 16_384


def shapes() -> list[Attention]:
    """Causal prefill of 16,384 tokens in sequences of four lengths, and of layers of models."""
    make = partial(Attention, STAGE, dtype="bf16")
    lengths = [
        make(TOKENS // length, length, heads, kv_heads)
        for heads, kv_heads in ((16, 16), (32, 8))
        for length in (1024, 2048, 4096, 8192)
    ]
    models = [make(1, 1024, 12, 12), make(1, 2048, 8, 8), make(1, 2048, 32, 8)]
    small = [make(8, 2048, 32, 32, 64), make(4, 2048, 14, 2, 64)]
    return [*lengths, *models, *small, make(4, 4096, 16, 16, is_causal=False)]


def measure(work: Attention, rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """A case for each contender: its rounds and relative error. Raises `WavesimError` if wrong."""
    runner = CupyRunner(backend=BACKEND)
    operands = runner.operands(Pipeline(STAGE, [Stage(STAGE, work)]))
    expected = reference(operands, BACKEND)[STAGE]
    names, contenders = [], []
    synchronize = require_cupy().cuda.Device().synchronize
    for name, contender, output in _contenders(runner, operands, work):
        operands.poison()
        synchronize()
        contender.launch()
        synchronize()
        error = _relative_error(output(), expected)
        if not error <= TOLERANCE[work.dtype]:
            raise WavesimError(f"{name} on {_label(work)}: relative error {error:.1e}; not timed")
        names.append((name, error))
        contenders.append(contender)
    shape = {key: value for key, value in asdict(work).items() if key != "block"}
    return [
        {"shape": shape, "name": name, "relative_error": error, "rounds_ns": times}
        for (name, error), times in zip(names, interleaved_ns(contenders, rounds), strict=True)
    ]


def line_of(work: Attention, cases: Sequence[dict[str, Any]]) -> str:
    """A shape's times, and how many times as fast as `RIVAL` the fastest of our plans is."""
    times = {case["name"]: median(case["rounds_ns"]) for case in cases}
    best = min(times[name] for name in PLANS)
    each = [f"{name} {ns / 1000:.1f} us {work.flops / ns / 1000:.0f} TFLOP/s" for name, ns in times.items()]
    return f"{_label(work)}: {times[RIVAL] / best:.3f} x {RIVAL}; {', '.join(each)}"


def _label(work: Attention) -> str:
    causal = "causal" if work.is_causal else "all keys"
    heads = f"{work.heads}/{work.kv_heads} heads of {work.head_dim}"
    return f"{work.sequences} x {work.length} tokens, {heads}, {causal}"


Found = tuple[str, Contender, Callable[[], Any]]  # name, what is timed, what it left, float32


def _contenders(runner: CupyRunner, operands: Operands, work: Attention) -> Iterator[Found]:
    for name, plan in PLANS.items():
        program = runner.program(operands, plan)
        yield name, runner.contender(program, REPEATS), lambda: operands.outputs()[STAGE]
    torch = require_torch()
    for name, backend in TORCH.items():
        yield (name, *_torch_contender(torch, backend, operands, work))


def _torch_contender(
    torch: Any, backend: str, operands: Operands, work: Attention
) -> tuple[Contender, Callable[[], Any]]:
    """`scaled_dot_product_attention` of one backend as a graph, on views of the same arrays."""
    cupy, side = require_cupy(), torch.cuda.Stream()
    q, k, v = (_heads(torch, operands.arrays[STAGE, name], work) for name in ("q", "k", "v"))

    def run() -> Any:
        with torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, backend)):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=work.is_causal, enable_gqa=work.heads != work.kv_heads
            )

    with torch.cuda.stream(side):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        outputs = [run() for _ in range(REPEATS)]

    def launch() -> None:
        with torch.cuda.stream(side):
            graph.replay()

    def output() -> Any:
        rows = outputs[-1].transpose(1, 2).reshape(work.m, work.columns).contiguous()
        raw = cupy.from_dlpack(rows.view(torch.int16))
        return to_float32(raw.view("uint16" if work.dtype == "bf16" else "float16"), work.dtype)

    return Contender(launch, cupy.cuda.ExternalStream(side.cuda_stream), REPEATS), output


def _heads(torch: Any, array: Any, work: Attention) -> Any:
    """(sequences, heads, rows, head_dim) of an operand."""
    element = torch.bfloat16 if work.dtype == "bf16" else torch.float16
    rows = torch.from_dlpack(array.view("int16")).view(element)
    return rows.view(work.sequences, rows.shape[0] // work.sequences, -1, work.head_dim).transpose(1, 2)


def _relative_error(got: Any, want: Any) -> float:
    norm = require_cupy().linalg.norm
    return float(norm((got - want).ravel()) / norm(want.ravel()))


def main() -> int:
    """Measures all shapes."""
    parser = argparse.ArgumentParser(prog="attention_bench", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the file that every round is written to")
    parser.add_argument("--commit", default="", help="what the kernels were built from")
    words = parser.parse_args()
    result: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": {name: value for name, value in asdict(query()).items() if name != "sources"},
        "versions": {**versions(), "torch": require_torch().__version__},
        "commit": words.commit or current_commit(),
        "kernel_sources": source_hash(backend_of(Stage(STAGE, shapes()[0]), BACKEND).source),
        "repeats": REPEATS,
        "cases": [],
    }
    for work in shapes():
        cases = measure(work)
        print(line_of(work, cases), flush=True)  # noqa: T201  # what it is for
        result["cases"] += cases
        write_text(words.out, json.dumps(result, separators=(",", ":"), allow_nan=False) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(run_program("python -m wavesim_gpu.bench.kinds.attention", main))
