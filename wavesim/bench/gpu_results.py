"""A GPU benchmark's results file: every case with its rounds, clocks and verdict, checked field by field.

Example: gpu/results/2026-11-22T124651Z.json.xz says that on an H200 cuBLASLt needed 504 us for GPT-3's MLP at
1,024 tokens in the median of its rounds, and our row semaphores 504 us too, and in which tiles.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from wavesim.errors import RecordingError
from wavesim.safe_io.bounds import shown
from wavesim.safe_io.documents import read_json

MAX_BYTES = 16 << 20  # the newest has 2.4 MB; as nothing but empty lists this much is 400 MB of memory
# Of a number that is measured or counted. Products and ratios of such are finite, and so are their sums.
SMALLEST, LARGEST = 1e-6, 1e18
MOST_CASES, MOST_ROUNDS = 10_000, 2_000  # of a file, and of a case: ratios of both are resampled
FOLDER = Path("gpu/results")


@dataclass(frozen=True)
class TimedCandidate:
    """One contender at one size. `rounds_ns` and `clocks_ghz` are one per round; clocks may be absent.

    A round is the mean of `repeats` runs in a row, or `operations` uses of a primitive by each of `blocks`.
    `is_right` is None where there is nothing to be right about. A case that is not final only served to
    choose the final ones. `words` are the remaining texts: plan, kernels, cuts, order, way, tile.
    """

    name: str
    workload: str
    rounds_ns: tuple[int, ...]
    clocks_ghz: tuple[float, ...] = ()
    is_right: bool | None = None
    is_final: bool = True
    roles: tuple[str, ...] = ()
    tokens: int | None = None
    threads: int | None = None
    repeats: int = 1
    operations: int | None = None
    blocks: int | None = None
    stage: str = ""
    product_of: str = ""
    weight_bytes: int | None = None
    flops: int | None = None
    copied_bytes: int | None = None
    clock_mhz: float | None = None
    power_w: float | None = None
    words: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def median_ns(self) -> float:
        """Median of the rounds."""
        return median(self.rounds_ns)

    @cached_property
    def quartiles_ns(self) -> tuple[float, float]:
        """Lower and upper quartile of the rounds."""
        return quartiles(self.rounds_ns)

    @cached_property
    def cycles(self) -> tuple[float, ...]:
        """SM cycles of each round; empty where clocks were not measured."""
        return tuple(ns * ghz for ns, ghz in zip(self.rounds_ns, self.clocks_ghz, strict=False))


@dataclass(frozen=True)
class GpuResults:
    """One benchmark run. `cases` are the usable ones; `wrong` and `empty` say which were left out.

    `kernel_sources` is the hash of the sources of all that was timed. `is_judged_after`: whether outputs were
    compared after the timed rounds too.
    """

    path: Path
    device: str
    power_limit_w: float | None
    date: str
    commit: str
    kernels: str
    kernel_sources: str
    versions: Mapping[str, str]
    cases: tuple[TimedCandidate, ...]
    wrong: tuple[TimedCandidate, ...] = ()
    empty: tuple[TimedCandidate, ...] = ()
    is_judged_after: bool = False

    @property
    def name(self) -> str:
        """The file's name, whether it is packed or not."""
        return self.path.name.removesuffix(".xz")

    @property
    def short_commit(self) -> str:
        """The commit in seven digits, with what the file says about uncommitted changes."""
        digits, space, rest = self.commit.partition(" ")
        return digits[:7] + space + rest

    def of(self, workload: str) -> list[TimedCandidate]:
        """The final cases of a workload."""
        return [case for case in self.cases if case.workload == workload and case.is_final]

    def first(self, workload: str, name: str) -> TimedCandidate | None:
        """The final case of that name, if there is one."""
        return next((case for case in self.of(workload) if case.name == name), None)


def quartiles(values: Iterable[float]) -> tuple[float, float]:
    """Lower and upper quartile; the value twice if there is only one."""
    values = list(values)
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = quantiles(values, n=4, method="inclusive")
    return low, high


def newest_results(folder: Path = FOLDER) -> Path:
    """The newest results file of a folder. Raises `RecordingError` if there is none."""
    files = sorted([*folder.glob("*.json"), *folder.glob("*.json.xz")])
    if not files:
        raise RecordingError(
            f"{folder}: no results file; name one, or run `python -m wavesim_gpu bench` on a GPU"
        )
    return files[-1]


def load_results(path: Path) -> GpuResults:
    """Reads one results file; cases with wrong results or without rounds are set aside.

    Raises `RecordingError` for a file that is too large, not JSON, or not a benchmark's, naming the field.
    """
    top = Fields(read_json(path, MAX_BYTES), str(path))
    device, versions = Fields(top.get("device", dict), f"{path}: device"), top.get("versions", dict)
    entries = top.get("cases", list)
    if len(entries) > MOST_CASES:
        raise RecordingError(f"{path}: {len(entries):,} cases; at most {MOST_CASES:,} are read")
    cases = [_case(Fields(entry, f"{path}: cases[{index}]")) for index, entry in enumerate(entries)]
    return GpuResults(
        path=path,
        device=device.get("name", str),
        power_limit_w=device.maybe("power_w", (int, float)),
        date=top.get("date", str),
        commit=top.get("commit", str),
        kernels=top.get("kernels", str),
        kernel_sources=top.get("kernel_sources", str),
        is_judged_after=top.maybe("is_judged_after", bool, default=False),
        versions={str(name): str(value) for name, value in versions.items()},
        cases=tuple(case for case in cases if case.is_right is not False and case.rounds_ns),
        wrong=tuple(case for case in cases if case.is_right is False),
        empty=tuple(case for case in cases if case.is_right is not False and not case.rounds_ns),
    )


Kind = type | tuple[type, ...]


@dataclass(frozen=True)
class Fields:
    """A JSON object that names its place when a field is missing or of another type."""

    value: Any
    place: str

    def get(self, name: str, kind: Kind) -> Any:
        """A field that must be there."""
        if not isinstance(self.value, dict) or name not in self.value:
            raise RecordingError(
                f"{self.place}: field {name!r} is missing; the file is not one of this version's results"
            )
        return self._checked(name, kind)

    def maybe(self, name: str, kind: Kind, default: Any = None) -> Any:
        """A field that may be missing or null."""
        return default if self.value.get(name) is None else self._checked(name, kind)

    def numbers(self, name: str, kind: Kind, *, may_be_zero: bool = False) -> tuple[Any, ...]:
        """A list of positive numbers, empty if missing."""
        values: list[Any] = self.maybe(name, list, [])
        if len(values) > MOST_ROUNDS:
            raise RecordingError(f"{self.place}: {len(values):,} {name}; at most {MOST_ROUNDS:,} are read")
        for index, value in enumerate(values):
            is_number = isinstance(value, kind) and not isinstance(value, bool)
            if not is_number or not (SMALLEST <= value <= LARGEST or (may_be_zero and value == 0)):
                raise RecordingError(
                    f"{self.place}: {name}[{index}] is {shown(value)}; it must be a positive number, "
                    f"{SMALLEST:g} to {LARGEST:g}"
                )
        return tuple(values)

    def count(self, name: str, default: int | None = None) -> Any:
        """An integer of at least 1 that may be missing or null."""
        value = self.maybe(name, int, default)
        if value is not None and value < 1:
            raise RecordingError(f"{self.place}: field {name!r} is {value}; it must be at least 1")
        return value

    def _checked(self, name: str, kind: Kind) -> Any:
        value = self.value[name]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            wanted = " or ".join(entry.__name__ for entry in (kind if isinstance(kind, tuple) else (kind,)))
            raise RecordingError(
                f"{self.place}: field {name!r} is {shown(value)}; it must be of type {wanted}"
            )
        if isinstance(value, int | float) and abs(value) > LARGEST:
            raise RecordingError(f"{self.place}: field {name!r} is {value:g}; it must be below {LARGEST:g}")
        return value


def _case(fields: Fields) -> TimedCandidate:
    name, workload = fields.get("name", str), fields.get("workload", str)
    is_primitive = workload == "primitive"  # an empty loop ends within a step of the timer
    rounds = fields.numbers("rounds_ns", int, may_be_zero=is_primitive)
    clocks = fields.numbers("clocks_ghz", (int, float), may_be_zero=is_primitive)
    if clocks and len(clocks) != len(rounds):
        raise RecordingError(
            f"{fields.place}: clocks_ghz has {len(clocks)} values for {len(rounds)} rounds; one per round"
        )
    verdict = fields.maybe("verdict", dict)
    texts = {key: fields.maybe(key, str, "") for key in ("plan", "kernels", "order", "way", "tile")}
    texts["cuts"] = ", ".join(str(cut) for cut in fields.maybe("cuts", list, []))
    return TimedCandidate(
        name=name,
        workload=workload,
        rounds_ns=rounds,
        clocks_ghz=clocks,
        is_right=None if verdict is None else Fields(verdict, f"{fields.place}.verdict").get("is_good", bool),
        is_final=fields.maybe("is_final", bool, True),
        roles=tuple(str(role) for role in fields.maybe("roles", list, [])),
        stage=fields.maybe("stage", str, ""),
        product_of=fields.maybe("of", str, ""),
        tokens=fields.count("tokens"),
        threads=fields.count("threads"),
        repeats=fields.count("repeats", 1),
        operations=fields.count("operations"),
        blocks=fields.count("blocks"),
        weight_bytes=fields.count("weight_bytes"),
        flops=fields.count("flops"),
        copied_bytes=fields.count("bytes"),
        clock_mhz=fields.maybe("clock_mhz", (int, float)),
        power_w=fields.maybe("power_w", (int, float)),
        words={key: text for key, text in texts.items() if text},
    )
