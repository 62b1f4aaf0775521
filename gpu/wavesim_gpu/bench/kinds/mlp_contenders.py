"""What is timed on an MLP: torch's forms, `mlp` as it chooses at once and tuned, cuBLASLt, and our kernels.

Example: every contender becomes a CUDA graph of several runs in a row, each on the next set of weights, and
its outputs are compared with a result in fp32 before and after the timed rounds. One that raises an error is
recorded with its message, and the rest goes on.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from wavesim.plan.plan import StreamSync
from wavesim_gpu.bench.kinds.mlp_operands import LayerOperands, LayerShape, set_count, verdict
from wavesim_gpu.driver.device import query
from wavesim_gpu.layers.description import MlpCall, MlpExecutable, MlpShape

Run = Callable[[LayerOperands], Any]

# A graph's start and the events around it take microseconds: a batch of this length hides them.
BATCH_NS, MOST_RUNS = 500_000, 48
FLOPS_PER_NS, BYTES_PER_NS = 600_000, 4_000  # about what the GPU sustains, for the length of a batch only
CALLS, CALLS_NS, LEAST_CALLS = 200, 80_000_000, 20  # for host times, and about how long they may take
DRAIN_EVERY = 10  # calls: the driver's queue is never full, which would make the host wait
LIMIT_NS = 2_000_000_000


@dataclass
class GraphOfRuns:
    """A contender captured as a CUDA graph of `len(outputs)` runs."""

    graph: Any
    stream: Any
    outputs: list[Any]
    kept: list[Any] = field(default_factory=list)  # what the graph reads

    def launch(self, torch: Any) -> None:
        """Replays it."""
        with torch.cuda.stream(self.stream):
            self.graph.replay()


def run_count(shape: LayerShape) -> int:
    """Runs in a graph: each set of weights equally often, for about `BATCH_NS` or more."""
    sets = set_count(shape)
    guess_ns = max(shape.flops / FLOPS_PER_NS, shape.weight_bytes / BYTES_PER_NS)
    return sets * max(1, min(math.ceil(BATCH_NS / guess_ns / sets), MOST_RUNS // sets))


def captured(torch: Any, stream: Any, run: Run, sets: Sequence[LayerOperands], count: int) -> GraphOfRuns:
    """`count` runs in a row as a graph, on the sets in turn; each output is kept."""
    with torch.cuda.stream(stream):
        for operands in (*sets, sets[0]):
            run(operands)
    torch.cuda.synchronize()
    graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        with torch.cuda.graph(graph, stream=stream):
            outputs = [run(sets[index % len(sets)]) for index in range(count)]
    except Exception:
        torch.cuda.set_stream(before)  # a capture that fails leaves its own current
        raise
    return GraphOfRuns(graph, stream, outputs, [run, *sets])


def judged(torch: Any, shape: LayerShape, entry: GraphOfRuns, expected: Sequence[Any]) -> dict[str, Any]:
    """The worse verdict on the first and on the last run's output, which were NaN before."""
    for output in (entry.outputs[0], entry.outputs[-1]):
        output.fill_(math.nan)
    torch.cuda.synchronize()
    entry.launch(torch)
    torch.cuda.synchronize()
    result = [verdict(shape, entry.outputs[0], expected[0]), verdict(shape, entry.outputs[-1], expected[-1])]
    return min(result, key=lambda each: (each["is_good"], -(each["largest_roundings"] or math.inf)))


def host_ns(torch: Any, shape: LayerShape, stream: Any, run: Run, operands: LayerOperands) -> list[int]:
    """Nanoseconds that each of up to 200 calls keeps the host, the GPU's queue never being full."""
    guess_ns = max(shape.flops / FLOPS_PER_NS, shape.weight_bytes / BYTES_PER_NS)
    count = max(LEAST_CALLS, min(CALLS, int(CALLS_NS / guess_ns)))
    result = []
    with torch.cuda.stream(stream):
        for index in range(count):
            if index % DRAIN_EVERY == 0:
                stream.synchronize()
            began = time.perf_counter_ns()
            run(operands)
            result.append(time.perf_counter_ns() - began)
    torch.cuda.synchronize()
    return result


def mlp_run(shape: LayerShape, *, tune: bool = False) -> Run:
    """`wavesim_gpu.mlp` on a model's weights, as a user calls it."""
    from wavesim_gpu import mlp  # noqa: PLC0415  # a failed import is the contender's failure

    words = {"tune": True} if tune else {}
    return lambda entry: mlp(*_matrices(shape, entry), **_options(shape, entry), **words)


def way_label(shape: LayerShape, operands: LayerOperands) -> str:
    """Which way `mlp` takes; why, if another could not be had; a hash of cuBLASLt's algorithms, if tuned."""
    from wavesim_gpu.layers.mlp import way_of  # noqa: PLC0415  # as above

    result = way_of(*_matrices(shape, operands), **_options(shape, operands))
    tuned = getattr(result, "algorithms", ())
    words = [result.reason, f"algorithms {sha256(repr(tuned).encode()).hexdigest()[:8]}" if tuned else ""]
    return " ".join([result.label, *(f"({text})" for text in words if text)])


def _matrices(shape: LayerShape, entry: LayerOperands) -> tuple[Any, Any, Any]:
    first = entry.packed if shape.mlp.gate == "packed" else entry.up
    return entry.x, first.t(), entry.down.t()


def _options(shape: LayerShape, entry: LayerOperands) -> dict[str, Any]:
    gate = {"gate": entry.gate.t()} if shape.mlp.gate == "separate" else {}
    biases = {name: bias for name, bias in (("b1", entry.b1), ("b2", entry.b2)) if bias is not None}
    return {"activation": shape.mlp.activation, **gate, **biases}


def library_run(torch: Any, shape: LayerShape) -> Run:
    """By cuBLASLt and element-wise kernels alone, whatever `mlp` would choose."""
    from wavesim_gpu.layers.library import LibraryMlp  # noqa: PLC0415  # as above

    return way_run(torch, shape.mlp, LibraryMlp(shape.mlp))


def our_best(shape: LayerShape) -> Any:
    """The least estimated time of our kernels, and the candidate that has it; None where there is none."""
    from wavesim_gpu.layers.choose import predicted  # noqa: PLC0415  # as above

    return next(iter(predicted(shape.mlp, query(), most=1)), None)


def ours_run(torch: Any, shape: LayerShape, *, is_stream_sync: bool = False) -> Run | None:
    """That candidate, whatever `mlp` would choose, or its tiles under stream sync.

    None where there is no candidate, and for stream sync where it has no semaphores.
    """
    from wavesim_gpu.layers.planned import PlannedMlp  # noqa: PLC0415  # as above

    best = our_best(shape)
    if best is None:
        return None
    pipeline, plan = best[1].planned(shape.mlp)
    if is_stream_sync and not plan.sync.has_semaphores:
        return None
    return way_run(
        torch, shape.mlp, PlannedMlp(shape.mlp, pipeline, StreamSync() if is_stream_sync else plan)
    )


def way_run(torch: Any, shape: MlpShape, way: MlpExecutable) -> Run:
    """A way on PyTorch's tensors and current stream, with scratch memory of its own."""
    scratch = torch.empty(max(1, way.scratch_bytes), dtype=torch.uint8, device="cuda")

    def run(entry: LayerOperands) -> Any:
        out = entry.x.new_empty((shape.m, shape.n2))
        way.run(_call(torch, shape, entry, out, scratch))
        return out

    return run


def _call(torch: Any, shape: MlpShape, entry: LayerOperands, out: Any, scratch: Any) -> MlpCall:
    return MlpCall(
        x=entry.x.data_ptr(),
        x_stride=shape.k,
        w1=entry.up.data_ptr(),
        w1_stride=shape.k,
        w2=entry.down.data_ptr(),
        w2_stride=shape.n1,
        out=out.data_ptr(),
        scratch=scratch.data_ptr(),
        stream=torch.cuda.current_stream().cuda_stream,
        device=entry.x.device.index,
        is_captured=torch.cuda.is_current_stream_capturing(),
        limit_ns=LIMIT_NS,
        w_gate=_address(entry.gate),
        b1=_address(entry.b1),
        b2=_address(entry.b2),
    )


def _address(tensor: Any) -> int:
    return 0 if tensor is None else int(tensor.data_ptr())
