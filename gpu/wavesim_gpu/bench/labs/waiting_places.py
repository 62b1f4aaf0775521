"""Where a semaphore can live, measured: global memory, a cluster's shared memory, a server block.

Example: `python -m wavesim_gpu.bench.labs.waiting_places --out wavesim/labs/waiting_places.json` on a GPU
with clusters. Two blocks post to each other in turns by each way; blocks look again and again at each place;
blocks post the tiles that they store; one block keeps the semaphores of others in its shared memory.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.errors import DeviceError
from wavesim_gpu.characterise.bench import MicroBench
from wavesim_gpu.driver.functions import Function
from wavesim_gpu.driver.kernel_launch import KernelLaunch, launch_extended, most_clusters
from wavesim_gpu.driver.kernel_sources import source_hash

SOURCE = Path(__file__).with_suffix(".cu")
# Each list in the order of its enumeration in waiting_places.cu.
WAYS = (
    "global flag",
    "remote store",
    "remote look",
    "remote add",
    "remote arrive",
    "async store",
    "cluster barrier",
)
LOOKS = ("global", "own", "remote")
POSTED = ("nothing", "global", "remote", "remote, unordered")
CLUSTERS = (2, 4, 8, 16)  # 16 where the device allows more than what is portable
MAPPED = (2, 3, 4, 5, 6, 7, 8, 16)  # clusters of several sizes overlap, until they show whole GPCs
PORTABLE, NON_PORTABLE_ALLOWED = 8, 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
PARTNERS, SERVED_PAIRS = 16, (1, 4, 16, 64)
WORDS_APART = 64
TURNS, REPEATS, LOOKED, ROUNDS, WORK, TILE_QUADS, THREADS = 1_000, 9, 1_000, 60, 400, 16, 256
HOLD_NS = 20_000
ONE_PER_SM_BYTES = 120 << 10  # dynamic shared memory of which no two blocks fit on an SM


def gpcs_of(clusters: Iterable[Sequence[int]]) -> dict[int, int]:
    """The GPC of each SM, by the least SM in it: SMs that were seen in one cluster share a GPC."""
    gpc: dict[int, int] = {}
    for sms in clusters:
        joined = {gpc.setdefault(sm, sm) for sm in sms}
        least = min(joined)
        gpc = {sm: least if entry in joined else entry for sm, entry in gpc.items()}
    return gpc


class ClusterBench:
    """The kernels on the GPU at hand. Raises `DeviceError` where it has no clusters."""

    def __init__(self) -> None:
        self.bench = bench = MicroBench()
        if not bench.is_hopper:
            raise DeviceError(f"{bench.device.name} has no clusters; they come with compute capability 9.0")
        self.flags = bench.zeros((2 * bench.sms + 2) * WORDS_APART, np.uint32)
        self.durations = bench.zeros((bench.sms, 2))
        self.sms = bench.zeros(bench.sms, np.uint32)

    def kernel(self, name: str, cluster: int = 1, shared: int = 0) -> Function:
        """A kernel that may be launched in clusters of that size."""
        result = self.bench.kernel(SOURCE.as_posix(), name, shared)
        if cluster > PORTABLE:
            self.bench.cupy.cuda.driver.funcSetAttribute(result.function.ptr, NON_PORTABLE_ALLOWED, 1)
        return result

    def most_clusters(self, name: str, cluster: int, threads: int = 32, shared: int = 0) -> int:
        """How many clusters of that size can be resident at once."""
        shape = KernelLaunch(name, threads, shared, cluster, cluster)
        return most_clusters(self.kernel(name, cluster, shared).function, shape)

    def launch(
        self, name: str, blocks: int, *arguments: Any, cluster: int = 1, threads: int = 32, shared: int = 0
    ) -> None:
        """One launch, and its end; arguments are CuPy arrays and NumPy scalars."""
        shape = KernelLaunch(name, threads, shared, blocks, cluster)
        passed = tuple(np.uint64(entry.data.ptr) if hasattr(entry, "get") else entry for entry in arguments)
        launch_extended(self.kernel(name, cluster, shared).function, shape, passed, self.bench.stream)
        self.bench.synchronize()

    def cleared_flags(self) -> Any:
        """The flags, all 0."""
        self.flags.fill(0)
        self.bench.synchronize()
        return self.flags

    def one_way(self, index: int, ways: int) -> tuple[float, float]:
        """(ns, cycles) one way of the last ping-pong of client or block `index`."""
        ns, cycles = self.durations[index].tolist()
        return ns / (TURNS - 1) / ways, cycles / (TURNS - 1) / ways


def measure(gpu: ClusterBench) -> dict[str, Any]:
    """All that is measured, as plain values."""
    gpu.bench.warm_up(lambda: _cluster_turn(gpu, 0, 2, 1))
    resident = {size: gpu.most_clusters("places", size, shared=ONE_PER_SM_BYTES) for size in MAPPED}
    gpcs = gpcs_of(_seen_clusters(gpu, resident))
    return {
        "clusters": {str(size): resident[size] for size in CLUSTERS},
        "gpcs": sorted(list(gpcs.values()).count(entry) for entry in set(gpcs.values())),
        "grid": _across_the_grid(gpu, gpcs),
        "cluster": _in_clusters(gpu, [size for size in CLUSTERS if resident[size]]),
        "looks": _looks(gpu, resident),
        "tile_posts_ns": _tile_posts(gpu),
        "served": _served(gpu),
    }


def _seen_clusters(gpu: ClusterBench, resident: dict[int, int]) -> list[list[int]]:
    """SMs of each cluster that ran, over clusters of every size."""
    seen = []
    for size, count in resident.items():
        for _ in range(REPEATS if count else 0):
            blocks = size * count
            hold = np.uint64(HOLD_NS)
            gpu.launch("places", blocks, gpu.sms, hold, cluster=size, shared=ONE_PER_SM_BYTES)
            result = gpu.sms.get()[:blocks].reshape(count, size)
            seen += [sms.tolist() for sms in result]
    return seen


def _across_the_grid(gpu: ClusterBench, gpcs: dict[int, int]) -> list[dict[str, Any]]:
    """One way by flags in global memory between SMs all over the GPU, in turns."""
    step = max(1, gpu.bench.sms // PARTNERS)
    result = []
    for partner in [entry for _ in range(REPEATS) for entry in range(1, gpu.bench.sms, step)]:
        words = gpu.cleared_flags(), np.uint32(partner), np.uint32(TURNS), gpu.durations, gpu.sms
        gpu.launch("grid_ping_pong", gpu.bench.sms, *words, shared=ONE_PER_SM_BYTES)
        sms = gpu.sms[0].item(), gpu.sms[partner].item()
        homes = [gpcs.get(sm, -1 - sm) for sm in sms]
        result.append({"sms": sms, "is_same_gpc": homes[0] == homes[1], "one_way_ns": gpu.one_way(0, 2)[0]})
    return result


def _cluster_turn(gpu: ClusterBench, way: int, size: int, partner: int) -> tuple[float, float]:
    words = gpu.cleared_flags(), np.uint32(partner), np.uint32(TURNS), gpu.durations
    gpu.launch(f"cluster_ping_pong<{way}>", size, *words, cluster=size)
    return gpu.one_way(0, 2)


def _in_clusters(gpu: ClusterBench, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """One way within a cluster, to the first block's neighbour and to the last block, in turns."""
    cases = [
        (way, size, partner)
        for size in sizes
        for partner in sorted({1, size - 1})
        for way in range(len(WAYS))
    ]
    times: list[list[tuple[float, float]]] = [[] for _ in cases]
    for _ in range(REPEATS):
        for result, case in zip(times, cases, strict=True):
            result.append(_cluster_turn(gpu, *case))
    return [
        {
            "way": WAYS[way],
            "blocks": size,
            "partner": partner,
            "one_way_ns": [ns for ns, _ in result],
            "one_way_cycles": [cycles for _, cycles in result],
        }
        for (way, size, partner), result in zip(cases, times, strict=True)
    ]


def _looks(gpu: ClusterBench, resident: dict[int, int]) -> list[dict[str, Any]]:
    """Nanoseconds of one look, the median block's, with ever more blocks that look.

    From afar without the first block, whose word it is.
    """
    largest = max(size for size in CLUSTERS if resident[size])
    cases = [(0, blocks, 1) for blocks in (1, gpu.bench.sms // 4, gpu.bench.sms)]
    cases += [(where, size, size) for where in (1, 2) for size in CLUSTERS if size <= largest]
    result = []
    for where, blocks, cluster in cases:
        times, first = [], int(LOOKS[where] == "remote")
        for _ in range(REPEATS):
            words = gpu.cleared_flags(), np.uint32(LOOKED), gpu.durations
            gpu.launch(f"look_again<{where}>", blocks, *words, cluster=cluster, shared=ONE_PER_SM_BYTES)
            times.append(float(np.median(gpu.durations.get()[first:blocks, 0])) / LOOKED)
        result.append({"where": LOOKS[where], "blocks": blocks, "look_ns": times})
    return result


def _tile_posts(gpu: ClusterBench) -> dict[str, list[float]]:
    """Nanoseconds of a round of storing a tile of 64 KB and posting it, the median block's, in turns."""
    blocks = 2 * gpu.most_clusters(f"tile_posts<{len(POSTED) - 1}>", 2, THREADS, ONE_PER_SM_BYTES)
    tiles = gpu.bench.zeros(blocks * TILE_QUADS * THREADS * 4, np.float32)
    numbers = [np.int32(entry) for entry in (TILE_QUADS, ROUNDS, WORK)]
    result: dict[str, list[float]] = {name: [] for name in POSTED}
    for _ in range(2 * REPEATS):
        for index, name in enumerate(POSTED):
            words = gpu.cleared_flags(), tiles, *numbers, gpu.durations
            gpu.launch(
                f"tile_posts<{index}>", blocks, *words, cluster=2, threads=THREADS, shared=ONE_PER_SM_BYTES
            )
            result[name].append(float(np.median(gpu.durations.get()[:blocks, 0])) / ROUNDS)
    return result


def _served(gpu: ClusterBench) -> list[dict[str, Any]]:
    """One way by way of a server block, the median pair's, with ever more pairs."""
    result = []
    for pairs in [entry for entry in SERVED_PAIRS if 2 * entry < gpu.bench.sms]:
        clients = 2 * pairs
        threads = -(-clients // 32) * 32
        times = []
        for _ in range(REPEATS):
            flags = gpu.cleared_flags()
            words = flags, flags[gpu.bench.sms * WORDS_APART :], np.uint32(TURNS), gpu.durations
            gpu.launch("served_ping_pong", clients + 1, *words, threads=threads, shared=ONE_PER_SM_BYTES)
            ways = [gpu.one_way(2 * pair, 2)[0] for pair in range(pairs)]
            times.append(float(np.median(ways)))
        result.append({"pairs": pairs, "one_way_ns": times})
    return result


def document(_rounds: int) -> dict[str, Any]:
    """All places."""
    return {"kernel_sources": source_hash(SOURCE), **measure(ClusterBench())}
