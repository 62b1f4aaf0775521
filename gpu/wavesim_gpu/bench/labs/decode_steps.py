"""A decode step beside PyTorch's and beside one read of its bytes: interleaved, in one process, as CUDA
graphs.

Example: of Llama-3-8B at batch 1 and 512 keys the document has microseconds a layer of our kernel, of
PyTorch op by op, of `torch.compile` and of the read, their ratios, and how far our result is from fp32.
"""

import json
import sys
import time
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wavesim.errors import DescriptionError, DeviceError
from wavesim.safe_io.signals import TimeIsOver, ended_after
from wavesim_gpu.bench.labs.decode_layers import DecodeLayers, LayerSizes, layer_in_torch
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.functions import load_function
from wavesim_gpu.driver.tensors import stream_at

MODELS = Path(__file__).with_suffix(".toml")
READER = Path(__file__).with_name("read_once.cu")
READER_BLOCKS, READER_THREADS, WARM_UPS = 264, 1024, 3
MOST_OF_USUAL = 1.5  # times PyTorch's own distance from fp32, which grows with the layers
COMPILE_MODE = "max-autotune-no-cudagraphs"
SECONDS, COMPILING_S = 65, 60  # after which nothing more is compiled; which a compilation may take at most


def document(rounds: int, model: str) -> dict[str, Any]:
    """Rows by keys and batch, each with all its times. A row that is wrong says so and has no times."""
    table = tomllib.loads(MODELS.read_text())
    entry = {"batches": table["batches"], **table["models"][model]}
    sizes = LayerSizes(**{name: value for name, value in entry.items() if name not in ("title", "batches")})
    rows, began = list[dict[str, Any]](), time.monotonic()
    for keys in table["keys"]:
        for batch in entry["batches"]:
            compiles = time.monotonic() - began < SECONDS
            try:
                row = measured(DecodeLayers(sizes, batch, keys), max(rounds, 20), compiles=compiles)
            except (DescriptionError, DeviceError) as refused:
                row = {"batch": batch, "keys": keys, "refused": str(refused)}
            rows.append({"model": model, **row})
            summary = {name: value for name, value in row.items() if name != "times_us"}
            sys.stderr.write(f"{model} {json.dumps(summary)}\n")
    return {"rows": rows}


def measured(layers: DecodeLayers, rounds: int, *, compiles: bool) -> dict[str, Any]:
    """One model, batch and number of keys."""
    step, expected = layers.launch(), layers.reference(layers.keys - 1)
    error = distance(result_of(layers, step), expected)
    ways = {"ours": graph_of(lambda: step.enqueue(_stream())), "limit": _read(layers.bytes_read())}
    layers.fuse()
    usual = distance(layers.eager(), expected)
    if not error < MOST_OF_USUAL * usual:
        raise DeviceError(f"a decode step is {error:.3g} from fp32, and PyTorch's bf16 {usual:.3g}")
    ways["eager"] = graph_of(layers.eager)
    note = "" if compiles else f"left out after {SECONDS} s"
    if compiles:
        try:
            ways["compiled"] = _compiled(layers)
        except (TimeIsOver, RuntimeError) as failed:
            note = f"{type(failed).__name__}: {failed}"[:500]
    times = interleaved(ways, rounds)
    step.check()
    medians = {way: median(series) for way, series in times.items()}
    best = min(medians.get(way, medians["eager"]) for way in ("eager", "compiled"))
    count = layers.sizes.layers
    return {
        "batch": layers.batch, "keys": layers.keys, "layers": count,
        "bytes": layers.bytes_read(), "error": error, "error_of_pytorch": usual, "compiling": note,
        "us_a_layer": {way: round(value / count, 3) for way, value in medians.items()},
        "over_limit": round(medians["ours"] / medians["limit"], 3),
        "speedup": round(best / medians["ours"], 3),
        "times_us": {way: [round(value, 1) for value in series] for way, series in times.items()},
    }  # fmt: skip


def _compiled(layers: DecodeLayers) -> Any:
    """A graph of PyTorch's compiled layers. Raises `TimeIsOver`."""
    torch._dynamo.reset()  # noqa: SLF001  # the layers before these have other sizes
    with ended_after(COMPILING_S, f"torch.compile had not ended after {COMPILING_S} s"):
        compiled = torch.compile(layer_in_torch, mode=COMPILE_MODE, dynamic=False)
        return graph_of(lambda: layers.eager(compiled))


def result_of(layers: DecodeLayers, step: Any) -> Tensor:
    """What our kernel makes of the layers, after poison. Raises what a step that gave up has written down."""
    layers.out.fill_(float("nan"))
    step.enqueue(_stream())
    torch.cuda.synchronize()
    step.check()
    return layers.out


def distance(got: Tensor, expected: Tensor) -> float:
    """From one to the other, of the other's length."""
    return float((got.float() - expected).norm() / expected.norm())


def _stream() -> Any:
    return stream_at(int(torch.cuda.current_stream().cuda_stream))


def _read(count: int) -> Any:
    """One read of so many bytes, as a graph."""
    function = load_function(READER, "read_once", Build()).function
    memory, sink = (
        torch.empty(count, dtype=torch.uint8, device="cuda"),
        torch.zeros(1, dtype=torch.int32, device="cuda"),
    )
    arguments = np.uint64(memory.data_ptr()), np.int64(count // 16), np.uint64(sink.data_ptr())

    def read() -> None:
        function((READER_BLOCKS,), (READER_THREADS,), arguments, stream=_stream())

    return KeptGraph(graph_of(read), (memory, sink))


class KeptGraph:
    """A graph with the memory that it reads."""

    def __init__(self, graph: Any, memory: tuple[Any, ...]) -> None:
        self.replay, self.memory = graph.replay, (graph, *memory)


def graph_of(work: Callable[[], Any]) -> Any:
    """Whatever it launches on the current stream, as one CUDA graph."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def interleaved(ways: Mapping[str, Any], rounds: int) -> dict[str, list[float]]:
    """Microseconds of each graph's replays, in turns, after `WARM_UPS` of each.

    Every round has another order, drawn: at the power limit a graph runs at the clock that the one before it
    has left, and no way may always follow the same one.
    """
    times: dict[str, list[float]] = {way: [] for way in ways}
    drawn, order = np.random.default_rng(0), list(ways.items())
    for turn in range(WARM_UPS + rounds):
        for at in drawn.permutation(len(order)):
            way, graph = order[at]
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            if turn >= WARM_UPS:
                times[way].append(begin.elapsed_time(end) * 1e3)
    return times
