"""What a GPU benchmark's cases amount to: speeds, gains, distances to the limit, the cost of semaphores.

Picture: cuBLASLt 495 us, our row semaphores 508 us: a speed of 0.974, between 0.970 and 0.979 by the
quartiles of the rounds. Above 1 is faster, whoever is compared; `Speed.of` is the one definition.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean, median, stdev

from wavesim.errors import RecordingError
from wavesim.io.gpu_results import Case, GpuResults, quartiles

LIBRARIES = ("cublaslt", "torch")
PAIRS = {"gpt3-mlp": "GPT-3 MLP", "llama-mlp": "LLaMA 65B MLP"}
PROMPT = 256  # tokens from which the arithmetic dominates; below, the reading of the weights
UPPER_95 = 1.96

# In the order in which they are shown.
LABELS = {
    "tuned": "tuned plan",
    "cusync": "best semaphores",
    "cublaslt": "cuBLASLt",
    "torch": "PyTorch",
    "stream": "stream sync",
    "same-cut stream": "stream sync, same cut",
    "stream per tile": "stream, block per tile",
    "pdl": "dependent launch",
    "stream-k": "Stream-K",
    "persistent": "one persistent kernel",
    "row": "row semaphores",
    "tile": "tile semaphores",
    "row on one stream": "row, one stream",
    "tile on one stream": "tile, one stream",
}


def label(name: str) -> str:
    """How a case is called on figures; unknown names stay as they are."""
    if name.startswith("block:"):
        shape, *rest = name.removeprefix("block:").split(" ", 1)
        return f"semaphore per {shape} tiles" + (f", {rest[0]}" if rest else "")
    return LABELS.get(name, name)


def rank(name: str) -> int:
    """Where a case stands on figures; unknown names come last."""
    return list(LABELS).index(name) if name in LABELS else len(LABELS)


@dataclass(frozen=True)
class Speed:
    """Time or cycles of one over those of another: medians, with the quartiles of the other's rounds."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, ours: Sequence[float], theirs: Sequence[float]) -> "Speed":
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
        found = list(speeds)
        return cls(geometric_mean(found), min(found), max(found)) if found else None

    def __str__(self) -> str:
        if self.worst == self.best:
            return f"{self.geomean:.3f}"
        return f"{self.geomean:.3f} ({self.worst:.3f} to {self.best:.3f})"


Pair = Mapping[str, Case]


def pairs_of(results: GpuResults, workload: str) -> dict[int, dict[str, Case]]:
    """{tokens: {name or role: case}} of a pair's final cases, smallest first."""
    found: dict[int, dict[str, Case]] = {}
    for case in results.of(workload):
        if case.tokens is not None:
            found.setdefault(case.tokens, {}).update(dict.fromkeys((case.name, *case.roles), case))
    return dict(sorted(found.items()))


def speeds(
    pairs: Mapping[int, Pair], ours: str, theirs: str, *, in_cycles: bool = False
) -> dict[int, tuple[Case, Speed]]:
    """{tokens: (our case, its speed)} where both were measured, in time or in SM cycles."""
    found = {}
    for tokens, cases in pairs.items():
        if ours in cases and theirs in cases:
            mine, other = (_amounts(cases[name], in_cycles=in_cycles) for name in (ours, theirs))
            if mine and other:
                found[tokens] = cases[ours], Speed.of(mine, other)
    return found


def _amounts(case: Case, *, in_cycles: bool) -> Sequence[float]:
    return case.cycles if in_cycles else case.rounds_ns


def summary(found: Mapping[int, tuple[Case, Speed]], from_tokens: int = PROMPT) -> Summary | None:
    """Of the sizes from `from_tokens`; of all where none is that large."""
    large = [speed.value for tokens, (_, speed) in found.items() if tokens >= from_tokens]
    return Summary.of(large or [speed.value for _, speed in found.values()])


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


def over_limit(case: Case, limits: Limits) -> Speed:
    """A pair's time over its limit: 1 is the limit."""
    if case.tokens is None or case.weight_bytes is None:
        raise RecordingError(
            f"case {case.name!r} of {case.workload}: tokens or weight_bytes is missing; measure again"
        )
    limit, (low, high) = limits.time_ns(case.tokens, case.weight_bytes), case.quartiles_ns
    return Speed(case.median_ns / limit, low / limit, high / limit)


def fastest_own(cases: Pair) -> Case | None:
    """The fastest case that is not a library's."""
    own = [case for name, case in cases.items() if name not in LIBRARIES]
    return min(own, key=lambda case: case.median_ns, default=None)


def products(results: GpuResults) -> dict[tuple[str, str], dict[int, tuple[Case, Speed]]]:
    """{(workload, stage): {tokens: (our case, its speed over cuBLASLt)}}."""
    found: dict[tuple[str, str], dict[int, dict[str, Case]]] = {}
    for case in results.of("product"):
        if case.tokens is not None:
            by_tokens = found.setdefault((case.product_of, case.stage), {})
            by_tokens.setdefault(case.tokens, {})[case.name] = case
    return {key: speeds(dict(sorted(sizes.items())), "ours", "cublaslt") for key, sizes in found.items()}


def cube_speed(results: GpuResults) -> Speed | None:
    """Our GEMM's speed over cuBLASLt at 8192 cubed; None where it was not measured."""
    ours, theirs = results.first("cube", "ours"), results.first("cube", "cublaslt")
    return None if ours is None or theirs is None else Speed.of(ours.rounds_ns, theirs.rounds_ns)


@dataclass(frozen=True)
class CopyOverhead:
    """What semaphores add to a pair of copies, in percent of the same pair under stream sync, paired rounds.

    `upper95` is the upper end of the mean's 95 % interval.
    """

    case: Case
    threads: int
    median: float
    low: float
    high: float
    upper95: float


def copy_overheads(results: GpuResults) -> dict[str, list[CopyOverhead]]:
    """By the name of the plan, smallest blocks first."""
    cases = results.of("copy-pair")
    plain = {case.threads: case for case in cases if case.name == "stream"}
    found: dict[str, list[CopyOverhead]] = {}
    for case in sorted(cases, key=lambda one: one.threads or 0):
        if case.name != "stream" and case.threads is not None and case.threads in plain:
            found.setdefault(case.name, []).append(_overhead(case, case.threads, plain[case.threads]))
    return found


def _overhead(case: Case, threads: int, plain: Case) -> CopyOverhead:
    rounds = zip(plain.rounds_ns, case.rounds_ns, strict=False)
    percents = [100 * (ours / theirs - 1) for theirs, ours in rounds]
    low, high = quartiles(percents)
    spread = stdev(percents) if len(percents) > 1 else 0.0
    upper = fmean(percents) + UPPER_95 * spread / len(percents) ** 0.5
    return CopyOverhead(case, threads, median(percents), low, high, upper)
