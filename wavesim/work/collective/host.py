"""A host: GPUs that run one pipeline together, the link between them, and the collectives after its stages.

Example: `[gpus] count = 2` and one `[[collectives]]` of kind all-reduce make of a user's GEMM two, whose
tiles are added as they are made. `across` has the stages that this means.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.model.link import Link, load_link
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import MOST_DEVICES
from wavesim.safe_io.bounds import MOST_NS, shown
from wavesim.work.collective import KINDS, SHOTS, Collective, across
from wavesim.work.description.fields import read_fields
from wavesim.work.description.table import DescriptionTable

FIELDS = Path(__file__).with_name("fields.toml")
MOST_LATE_US = 1e6


@dataclass(frozen=True)
class Host:
    """So many GPUs of one kind, each linked to all others; rank r runs on the r-th.

    `late_ns`: when each begins, from the first's begin; none where all do together. Raises
    `DescriptionError`.
    """

    gpus: int
    link: Link
    collectives: Mapping[str, Collective] = field(default_factory=dict)
    late_ns: Sequence[int] = ()

    def __post_init__(self) -> None:
        if type(self.gpus) is not int or not 2 <= self.gpus <= MOST_DEVICES:
            raise DescriptionError(
                f"Host: gpus is {shown(self.gpus)}; GPUs that compute together are 2 to {MOST_DEVICES}. "
                "With one "
                "GPU leave host and collectives out"
            )
        late = tuple(self.late_ns) or (0,) * self.gpus
        object.__setattr__(self, "late_ns", late)
        if len(late) != self.gpus:
            raise DescriptionError(
                f"Host: late_ns has {len(late)} times; give one for each of {self.gpus} GPUs"
            )
        for time in late:
            if type(time) is not int or not 0 <= time <= MOST_NS:
                raise DescriptionError(
                    f"Host: late_ns has {shown(time)}; it must be an integer from 0 to {MOST_NS:,}"
                )

    def __hash__(self) -> int:
        return hash((self.gpus, self.link, frozenset(self.collectives.items()), self.late_ns))

    def pipeline(self, of_one: Pipeline) -> Pipeline:
        """The pipeline of all GPUs, of that which each runs. Raises `DescriptionError`."""
        return across(of_one, self.gpus, self.collectives)


def host_of(top: DescriptionTable, stages: Mapping[str, Any], device: str) -> Host | None:
    """What a description's tables `gpus` and `collectives` say; None where there is one GPU.

    Raises `RecordingError` naming file and field, or `DescriptionError`.
    """
    if not top.has("gpus"):
        if top.has("collectives"):
            raise top.missing("gpus", " and its count; a collective is of several GPUs")
        return None
    table = DescriptionTable.of(top.path, "gpus.", top.values["gpus"], read_fields(FIELDS)["gpus"])
    late_us = table.optional("late_us", list) or []
    for time in late_us:
        if type(time) not in (int, float) or not 0 <= time <= MOST_LATE_US:
            raise table.wrong(
                "late_us", f"expected a list of numbers from 0 to {MOST_LATE_US:g}, one for each GPU"
            )
    count = table.required("count", int)
    collectives = _collectives(top, stages)
    return Host(count, _link(table, device), collectives, [round(1000 * time) for time in late_us])


def _link(table: DescriptionTable, device: str) -> Link:
    name = table.optional("link", str)
    if name is not None and name.endswith(".toml"):
        return load_link(str(table.path.parent / name))
    return load_link(name if name is not None else device)


def _collectives(top: DescriptionTable, stages: Mapping[str, Any]) -> dict[str, Collective]:
    collectives: dict[str, Collective] = {}
    known = read_fields(FIELDS)["collectives"]
    for position, entry in enumerate(top.optional("collectives", list) or []):
        table = DescriptionTable.of(top.path, f"collectives[{position}].", entry, known)
        stage = table.stage("stage", stages).name
        if stage in collectives:
            raise table.wrong("stage", "it has a collective already; a stage has one")
        if not table.has("kind"):
            raise table.missing("kind")
        kind, shots = table.word("kind", KINDS), table.word("shots", SHOTS)
        if shots and kind != "all-reduce":
            raise table.wrong("shots", "only an all-reduce has shots; leave it out")
        collectives[stage] = Collective(kind, shots or SHOTS[0])
    return collectives
