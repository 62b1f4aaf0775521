"""Times every way of a layer over a process group, and keeps the fastest.

Example: `tuned_times(group, "all-reduce", x, w, None)` has cuBLASLt's algorithms timed for the GEMM, makes
each way that `peers/choice.py` knows for the shape, times them interleaved in graphs and as the host launches
them, and has later calls, and later processes, take the fastest of each.
"""

from contextlib import suppress
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

from wavesim.errors import DescriptionError, DeviceError
from wavesim_gpu.driver.functions import compile_all
from wavesim_gpu.peers.choice import LIBRARY, LinearShape, WayChoice, takes_halves, takes_push
from wavesim_gpu.peers.products import exchange_kernel
from wavesim_gpu.torch.group_memory import GroupMemory
from wavesim_gpu.torch.kept_ways import candidates, keep_choices
from wavesim_gpu.torch.layer_product import takes_product
from wavesim_gpu.torch.parallel_calls import DTYPES, calls_of, label_of, require_layer
from wavesim_gpu.torch.parallel_ways import aligned, made_way, problem_of, require_alike

LEAST_FASTER = 0.98  # of the fastest library's time: from there on ours is kept
ROUNDS = 15
FIRST_ROUNDS, PROMISING = 4, 1.1  # all take the first rounds, what is so near to the best also the others
MOST_CALLS, LEAST_CALLS, TIMED_US = 10, 2, 2000.0  # one after the other: about so long
TOLERANCE = 2e-2  # of the largest output: bf16's, whose sums are rounded twice
Launched = tuple[WayChoice, bool]  # a way, in a graph or not


@torch.no_grad()
def tuned_times(group: Any, kind: str, x: Tensor, w: Tensor, bias: Tensor | None) -> dict[str, float]:
    """Times all ways over the group, keeps the fastest and returns us by way. Collective."""
    calls = calls_of(group)
    require_layer(kind, x, w, bias, calls.ranks)
    shape, memory = calls.shape_of(kind, x, w, bias), calls.memory(x.device)
    require_alike(memory.exchange(shape))
    if not x.is_cuda or x.dtype not in DTYPES:
        raise DescriptionError(
            f"parallel linear: x is {x.dtype} on {x.device}; tuning times fp16 and bf16 on a GPU"
        )
    rows, timed = x.reshape(-1, x.shape[-1]), {}
    right = made_way(WayChoice(LIBRARY), shape, memory, w, bias)(rows, w, bias, None).float()
    whole, half = (_fastest_product(part, memory, rows[: part.m], w) for part in _parts(shape))
    memory.algorithms[shape] = memory.exchange((whole, half))[0]
    choices = candidates(shape)
    compile_all(exchange_kernel(problem_of(shape, choice)) for choice in choices if choice.exchanges)
    for choice in choices:
        call, _ = memory.agree(partial(made_way, choice, shape, memory, w, bias))
        if call is None:
            continue
        error = float((call(rows, w, bias, None).float() - right).abs().max() / right.abs().max())
        if all(told <= TOLERANCE for told in memory.exchange(error)):  # NaN is not
            timed[choice] = partial(call, rows, w, bias, None)
    in_graphs, eager = _times(timed, memory)
    calls.chosen[shape], calls.eager[shape] = _best(in_graphs), _best(eager)
    calls.forget()
    keep_choices(shape, calls.chosen[shape], calls.eager[shape], memory.algorithms[shape])
    return {label_of(choice): in_graphs[choice] for choice in sorted(in_graphs, key=in_graphs.__getitem__)}


def _parts(shape: LinearShape) -> tuple[LinearShape, LinearShape]:
    """The whole GEMM's, and that of half of the rows; none of those where they are not halved."""
    return shape, replace(shape, m=shape.m // shape.ranks if takes_halves(shape) else 0)


def _fastest_product(shape: LinearShape, memory: GroupMemory, x: Tensor, w: Tensor) -> str:
    """The fastest of cuBLASLt's algorithms, all ranks timing at once; "" where it is not used."""
    if not takes_push(shape) or not takes_product(w, None):
        return ""
    with suppress(DeviceError):
        x, out = aligned(x), x.new_empty(shape.m, shape.n)
        stream = torch.cuda.current_stream().cuda_stream
        return memory.product(shape, w, None).fastest(x.data_ptr(), out.data_ptr(), stream)
    return ""


def _best(times: dict[WayChoice, float]) -> WayChoice:
    """The fastest; ours only where it is surely faster than the libraries'."""
    best = min((choice for choice in times if not choice.is_ours), key=times.__getitem__)
    ours = min((choice for choice in times if choice.is_ours), key=times.__getitem__, default=best)
    return ours if times[ours] <= LEAST_FASTER * times[best] else best


def _times(
    calls: dict[WayChoice, Any], memory: GroupMemory
) -> tuple[dict[WayChoice, float], dict[WayChoice, float]]:
    """Microseconds of one call, in graphs and launched by the host, interleaved: the slower rank's median."""
    stream = torch.cuda.Stream()
    launched: dict[Launched, Any] = {}
    for choice, call in calls.items():
        count = _calls_at_once(call, memory)
        graph, repeated = torch.cuda.CUDAGraph(), partial(_repeat, call, count)
        with torch.cuda.graph(graph, stream=stream):
            repeated()
        launched[choice, True], launched[choice, False] = (graph.replay, count), (repeated, count)
    times: dict[Launched, list[float]] = {key: [] for key in launched}
    medians = _rounds(launched, times, FIRST_ROUNDS, memory)
    near = {key: launch for key, launch in launched.items() if _is_near(key, medians)}
    medians |= _rounds(near, times, ROUNDS - FIRST_ROUNDS, memory)
    in_graphs, eager = ({way: us for (way, is_graph), us in medians.items() if is_graph is wanted}
                        for wanted in (True, False))  # fmt: skip
    return in_graphs, eager


def _is_near(key: Launched, medians: dict[Launched, float]) -> bool:
    """Whether it may still be the fastest of ours, or of the libraries'."""
    choice, is_graph = key
    rivals = [us for (way, form), us in medians.items() if (way.is_ours, form) == (choice.is_ours, is_graph)]
    return medians[key] <= PROMISING * min(rivals)


def _calls_at_once(call: Any, memory: GroupMemory) -> int:
    """So many that they take a while, on all ranks alike. Warms up."""
    for _ in range(3):
        call()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    call()
    end.record()
    end.synchronize()
    us = max(memory.exchange(begin.elapsed_time(end) * 1e3))
    return int(max(LEAST_CALLS, min(MOST_CALLS, TIMED_US // max(us, 1))))


def _rounds(
    launched: dict[Launched, Any],
    times: dict[Launched, list[float]],
    rounds: int,
    memory: GroupMemory,
) -> dict[Launched, float]:
    """Goes on measuring; the slower rank's medians of all rounds so far."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(rounds):
        for key, (launch, count) in launched.items():
            torch.cuda.synchronize()
            memory.exchange(None)
            launch()  # ranks start apart; by the second time they go together
            begin.record()
            launch()
            end.record()
            end.synchronize()
            times[key].append(begin.elapsed_time(end) * 1e3 / count)
    told = memory.exchange([median(times[key]) for key in launched])
    return dict(zip(launched, map(max, zip(*told, strict=True)), strict=True))


def _repeat(call: Any, count: int) -> None:
    for _ in range(count):
        call()
