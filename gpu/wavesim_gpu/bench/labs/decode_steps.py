"""A decode step beside PyTorch's and beside one read of its bytes: interleaved, in one process, as CUDA
graphs.

Example: of Llama-3-8B at batch 1 and 512 keys the document has microseconds a layer of our kernel, of
PyTorch op by op, of `torch.compile` and of the read, their ratios, and how far our result is from fp32.
"""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from wavesim.errors import DeviceError
from wavesim_gpu.bench.labs.decode_layers import DecodeLayers, LayerSizes
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.element_types import TOLERANCE
from wavesim_gpu.driver.functions import load_function
from wavesim_gpu.driver.tensors import stream_at

MODELS = Path(__file__).with_suffix(".toml")
READER = Path(__file__).with_name("read_once.cu")
READER_BLOCKS, READER_THREADS, WARM_UPS = 264, 1024, 3
COMPILE_MODE = "max-autotune-no-cudagraphs"


def document(rounds: int, models: tuple[str, ...] = (), *, compiles: bool = True) -> dict[str, Any]:
    """Rows by model and batch, each with all its times. Raises `DeviceError` for a result that is wrong."""
    table = tomllib.loads(MODELS.read_text())
    rows = [
        measured(name, entry, batch, table["keys"], max(rounds, 20), compiles=compiles)
        for name, entry in table["models"].items()
        if not models or name in models
        for batch in entry.get("batches", table["batches"])
    ]
    return {"rows": rows}


def measured(
    name: str, entry: Mapping[str, Any], batch: int, keys: int, rounds: int, *, compiles: bool
) -> dict[str, Any]:
    """One model and batch."""
    sizes = {field: value for field, value in entry.items() if field not in ("title", "batches")}
    layers = DecodeLayers(LayerSizes(**sizes), batch, keys)
    step = layers.launch()
    error = _error(layers, step)
    ways = {"ours": graph_of(lambda: step.enqueue(_stream())), "limit": _read(layers.bytes_read())}
    layers.fuse()
    ways["eager"] = graph_of(layers.eager)
    if compiles:
        torch._dynamo.reset()  # noqa: SLF001  # the model before this one has other sizes
        ways["compiled"] = graph_of(torch.compile(layers.eager, mode=COMPILE_MODE))
    times = interleaved(ways, rounds)
    step.check()
    medians = {way: median(series) for way, series in times.items()}
    best = min(medians.get(way, medians["eager"]) for way in ("eager", "compiled"))
    count = layers.sizes.layers
    return {
        "model": name, "batch": batch, "keys": keys, "layers": count,
        "bytes": layers.bytes_read(), "error": error,
        "us_a_layer": {way: round(value / count, 3) for way, value in medians.items()},
        "over_limit": round(medians["ours"] / medians["limit"], 3),
        "speedup": round(best / medians["ours"], 3),
        "times_us": {way: [round(value, 1) for value in series] for way, series in times.items()},
    }  # fmt: skip


def _error(layers: DecodeLayers, step: Any) -> float:
    expected = layers.reference(layers.keys - 1)
    layers.out.fill_(float("nan"))
    step.enqueue(_stream())
    torch.cuda.synchronize()
    step.check()
    error = float((layers.out.float() - expected).norm() / expected.norm())
    if not error < TOLERANCE["bf16"]:
        raise DeviceError(f"a decode step is {error:.3g} from fp32; at most {TOLERANCE['bf16']} is right")
    return error


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
    """Microseconds of each graph's replays, in turns, after `WARM_UPS` of each."""
    times: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(WARM_UPS + rounds):
        for way, graph in ways.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            if turn >= WARM_UPS:
                times[way].append(begin.elapsed_time(end) * 1e3)
    return times
