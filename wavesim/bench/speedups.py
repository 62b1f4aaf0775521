"""What a GPU benchmark's cases amount to: speeds, gains, distances to the limit.

Example: cuBLASLt 492 us, our row semaphores 499 us: a speed of 0.987, between 0.976 and 0.996 by the
quartiles of the rounds. Above 1 is faster, whoever is compared; `Speedup.of` is the one definition.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median

from wavesim.bench.gpu_results import GpuResults, TimedCandidate, quartiles
from wavesim.errors import RecordingError

LIBRARIES = ("cublaslt", "torch")
PAIRS = {"gpt3-mlp": "GPT-3 MLP", "llama-mlp": "LLaMA 65B MLP"}
CUBE = 8192
PROMPT = 256  # tokens from which the arithmetic dominates; below, the reading of the weights

LABELS = {
    "tuned": "tuned plan",
    "predicted": "simulator's choice",
    "cusync": "best semaphores",
    "cublaslt": "cuBLASLt",
    "torch": "PyTorch",
    "stream": "stream sync",
    "same-cut": "semaphores, same cut",
    "same-cut stream": "stream sync, same cut",
    "stream per tile": "stream, block per tile",
    "pdl": "dependent launch",
    "stream-k": "Stream-K",
    "stream-k pdl": "Stream-K, dependent",
    "persistent": "one persistent kernel",
    "row": "row semaphores",
    "tile": "tile semaphores",
    "row on one stream": "row, one stream",
    "tile on one stream": "tile, one stream",
}
GENERATED = "block:"  # how the names of other generated policies begin


def label(name: str) -> str:
    """How a case is called on figures; unknown names stay as they are."""
    if name.startswith(GENERATED):
        shape, *rest = name.removeprefix(GENERATED).split(" ", 1)
        return f"semaphore per {shape} tiles" + (f", {rest[0]}" if rest else "")
    return LABELS.get(name, name)


@dataclass(frozen=True)
class Speedup:
    """Time or cycles of one over those of another: medians, with the quartiles of the other's rounds."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, ours: Sequence[float], theirs: Sequence[float]) -> "Speedup":
        """How fast `ours` is when `theirs` has speed 1."""
        reference, (low, high) = median(theirs), quartiles(ours)
        return cls(reference / median(ours), reference / high, reference / low)


@dataclass(frozen=True)
class Summary:
    """Of several speeds."""

    geomean: float
    worst: float
    best: float

    @classmethod
    def of(cls, speeds: Iterable[float]) -> "Summary | None":
        """None without any."""
        result = list(speeds)
        return cls(geometric_mean(result), min(result), max(result)) if result else None

    def __str__(self) -> str:
        if self.worst == self.best:
            return f"{self.geomean:.3f}"
        return f"{self.geomean:.3f} ({self.worst:.3f} to {self.best:.3f})"


Pair = Mapping[str, TimedCandidate]


def pairs_of(results: GpuResults, workload: str) -> dict[int, dict[str, TimedCandidate]]:
    """{tokens: {name or role: case}} of a pair's final cases, smallest first."""
    timed: dict[int, dict[str, TimedCandidate]] = {}
    for case in results.of(workload):
        if case.tokens is not None:
            timed.setdefault(case.tokens, {}).update(dict.fromkeys((case.name, *case.roles), case))
    return dict(sorted(timed.items()))


def generated_of(cases: Pair) -> list[TimedCandidate]:
    """Cases of generated policies but row and tile, fastest first."""
    result = {id(case): case for name, case in cases.items() if name.startswith(GENERATED)}
    return sorted(result.values(), key=lambda case: case.median_ns)


def speeds(
    pairs: Mapping[int, Pair], ours: str, theirs: str, *, in_cycles: bool = False
) -> dict[int, tuple[TimedCandidate, Speedup]]:
    """{tokens: (our case, its speed)} where both were measured, in time or in SM cycles."""
    result = {}
    for tokens, cases in pairs.items():
        if ours in cases and theirs in cases:
            mine, other = (_amounts(cases[name], in_cycles=in_cycles) for name in (ours, theirs))
            if mine and other:
                result[tokens] = cases[ours], Speedup.of(mine, other)
    return result


def _amounts(case: TimedCandidate, *, in_cycles: bool) -> Sequence[float]:
    return case.cycles if in_cycles else case.rounds_ns


def summary(
    speedups: Mapping[int, tuple[TimedCandidate, Speedup]], from_tokens: int = PROMPT
) -> Summary | None:
    """Of the sizes from `from_tokens`; of all where none is that large."""
    large = [speed.value for tokens, (_, speed) in speedups.items() if tokens >= from_tokens]
    return Summary.of(large or [speed.value for _, speed in speedups.values()])


@dataclass(frozen=True)
class Limits:
    """The sustained rates of the run: of one large matmul, and of a copy, which reads and writes."""

    flops_per_ns: float
    bytes_per_ns: float

    @classmethod
    def of(cls, results: GpuResults) -> "Limits":
        """Raises `RecordingError` where the run did not measure them."""
        matmul, copy = results.first("limit", "matmul"), results.first("limit", "copy")
        if matmul is None or copy is None or not matmul.flops or not copy.copied_bytes:
            raise RecordingError(
                f"{results.path}: cases 'matmul' and 'copy' of workload 'limit' are missing; measure again"
            )
        return cls(matmul.flops / matmul.median_ns, copy.copied_bytes / copy.median_ns)

    def time_ns(self, tokens: int, weight_bytes: int) -> float:
        """The least time of a pair of fp16 products: their arithmetic or the reading of their weights."""
        flops = tokens * weight_bytes  # 2 per weight and token, 2 bytes per weight
        return max(flops / self.flops_per_ns, weight_bytes / self.bytes_per_ns)


def over_limit(case: TimedCandidate, limits: Limits) -> Speedup:
    """A pair's time over its limit: 1 is the limit."""
    if case.tokens is None or case.weight_bytes is None:
        raise RecordingError(
            f"case {case.name!r} of {case.workload}: tokens or weight_bytes is missing; measure again"
        )
    limit, (low, high) = limits.time_ns(case.tokens, case.weight_bytes), case.quartiles_ns
    return Speedup(case.median_ns / limit, low / limit, high / limit)


Product = tuple[str, str]  # (workload, stage); ("cube", "") of 8192 x 8192 x 8192


def products(results: GpuResults) -> dict[Product, dict[int, Pair]]:
    """{(workload, stage): {tokens: {name: case}}}, smallest first; `speeds` compares them."""
    timed: dict[Product, dict[int, dict[str, TimedCandidate]]] = {}
    for case in results.of("product"):
        if case.tokens is not None:
            by_tokens = timed.setdefault((case.product_of, case.stage), {})
            by_tokens.setdefault(case.tokens, {})[case.name] = case
    return {key: dict(sorted(sizes.items())) for key, sizes in timed.items()}


def cube(results: GpuResults) -> Pair:
    """Ours and cuBLASLt's case at 8192 cubed, by name; empty where it was not measured."""
    return {case.name: case for case in results.of("cube")}


@dataclass(frozen=True)
class Separation:
    """What separates ours from theirs: speed in time = speed in SM cycles x ratio of the clocks.

    A clock ratio below 1 says that ours ran at a lower clock: these kernels are limited by power.
    """

    time: float
    cycles: float
    clock: float

    @classmethod
    def of(cls, ours: TimedCandidate, theirs: TimedCandidate) -> "Separation | None":
        """None where clocks were not measured."""
        if not ours.clocks_ghz or not theirs.clocks_ghz:
            return None
        return cls(
            theirs.median_ns / ours.median_ns,
            median(theirs.cycles) / median(ours.cycles),
            median(ours.clocks_ghz) / median(theirs.clocks_ghz),
        )


def separations(results: GpuResults) -> dict[tuple[str, int], Separation]:
    """{("workload, stage" or workload of a pair, M): ours beside cuBLASLt's}; of a pair the tuned plan's."""
    contests: dict[tuple[str, int], tuple[TimedCandidate, TimedCandidate]] = {}
    for (workload, stage), sizes in products(results).items():
        for tokens, cases in sizes.items():
            if "ours" in cases and "cublaslt" in cases:
                contests[f"{PAIRS.get(workload, workload)}, {stage} alone", tokens] = (
                    cases["ours"],
                    cases["cublaslt"],
                )
    both = cube(results)
    if "ours" in both and "cublaslt" in both:
        contests["8192 cubed", CUBE] = both["ours"], both["cublaslt"]
    for workload, name in PAIRS.items():
        for tokens, cases in pairs_of(results, workload).items():
            if "tuned" in cases and "cublaslt" in cases:
                contests[f"{name}, tuned plan", tokens] = cases["tuned"], cases["cublaslt"]
    result = {key: Separation.of(*both) for key, both in contests.items()}
    return {key: entry for key, entry in result.items() if entry is not None}
