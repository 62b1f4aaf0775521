"""Case lists: what a blind run or a benchmark measures, as a TOML file.

Example: `load_list("convolutions-sixth")` has 61 cases; each makes its pipeline and its plans, the baseline
first. A new list is a file, of one's own or in `wavesim/bench/lists/`, and no Python:

    kind = "layers"                   # what a row describes; `KINDS` has them
    title = "a third list of layers"
    device = "h200"
    plans = ["pdl", "pdl+row", "pdl+tile"]
    [[case]]
    part = "chain"
    model = ["llama-65b", "gpt3-145b"]  # a list is a case for each of its values
    tokens = [448, 1152]
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from wavesim.bench.kinds import KINDS, CaseKind
from wavesim.costs.device_costs import default_device
from wavesim.errors import RecordingError
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.safe_io.documents import read_toml

LISTS = files("wavesim.bench") / "lists"
ROUNDS = 20
# `kernels` and `workloads` are tables that rows name. `contests`: how the names of a way's rivals begin.
FIELDS = {"kind", "title", "device", "baseline", "plans", "orders", "rounds", "case", "contests"}
FIELDS |= {"kernels", "workloads"}


@dataclass(frozen=True)
class Case:
    """One case: the fields of its row, its plans' words and its orders'."""

    name: str
    kind: CaseKind
    fields: Mapping[str, Any] = field(hash=False)
    baseline: str
    plans: tuple[str, ...]
    orders: tuple[str, ...]

    def pipeline(self) -> Pipeline:
        """Its stages. Raises `RecordingError` for a kind that has none."""
        return self.kind.pipeline(self.fields)

    def plan(self, word: str, order: str) -> Plan:
        """The plan of a word, in an order of tiles."""
        return self.kind.plan(self.fields, word, order)

    @property
    def entries(self) -> Iterator[tuple[str, str]]:
        """(order, plan word), the baseline first in each order."""
        return ((order, word) for order in self.orders for word in (self.baseline, *self.plans))


@dataclass(frozen=True)
class CaseList:
    """A list as its file says; `sha256` is the file's."""

    name: str
    kind: str
    title: str
    device: str
    baseline: str
    rounds: int
    sha256: str
    cases: tuple[Case, ...]
    contests: Mapping[str, str] = field(default_factory=dict)

    def shard(self, number: int, count: int) -> tuple[Case, ...]:
        """The cases of shard `number`, from 1, of `count`. Raises `RecordingError` for a number outside."""
        if not 1 <= number <= count:
            raise RecordingError(f"{self.name}: shard is {number}/{count}; it must be from 1 to {count}")
        return self.cases[number - 1 :: count]


def list_names() -> list[str]:
    """The lists that ship."""
    return sorted(Path(entry.name).stem for entry in LISTS.iterdir() if entry.name.endswith(".toml"))


def load_list(name: str | Path) -> CaseList:
    """A list that ships, by its name, or a file. Raises `RecordingError` naming file and field."""
    path = Path(name) if str(name).endswith(".toml") else Path(str(LISTS / f"{name}.toml"))
    if not path.is_file():
        raise RecordingError(f"no list is called {str(name)!r}; give a TOML file, or one of {list_names()}")
    entry = read_toml(path)
    if unknown := sorted(set(entry) - FIELDS):
        raise RecordingError(f"{path}: field {unknown[0]!r} is not known; a list has {sorted(FIELDS)}")
    kind = KINDS.get(entry.get("kind", ""))
    if kind is None:
        raise RecordingError(f"{path}: kind is {entry.get('kind')!r}; it must be one of {sorted(KINDS)}")
    baseline = str(entry.get("baseline", "stream"))
    cases = tuple(_cases(path, kind, entry, baseline))
    if len({case.name for case in cases}) != len(cases):
        raise RecordingError(f"{path}: two cases have one name")
    return CaseList(
        path.stem,
        str(entry["kind"]),
        str(entry.get("title", path.stem)),
        str(entry.get("device", default_device())),
        baseline,
        int(entry.get("rounds", ROUNDS)),
        hashlib.sha256(path.read_bytes()).hexdigest(),
        cases,
        dict(entry.get("contests", {})),
    )


def _cases(path: Path, kind: CaseKind, entry: Mapping[str, Any], baseline: str) -> Iterator[Case]:
    for position, row in enumerate(entry.get("case", ())):
        if missing := sorted(kind.needs - set(row)):
            raise RecordingError(f"{path}: case[{position}] lacks {missing[0]!r}")
        for fields in _spread(row, kind.spread):
            plans = tuple(fields.get("plans", entry.get("plans", ())))
            orders = tuple(fields.get("orders", entry.get("orders", ("row",))))
            yield Case(kind.name(fields), kind, fields, baseline, plans, orders)


def _spread(row: Mapping[str, Any], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A row for each combination of the fields that are lists of values."""
    several = [name for name in names if isinstance(row.get(name), list)]
    for values in product(*(row[name] for name in several)):
        yield {**row, **dict(zip(several, values, strict=True))}
