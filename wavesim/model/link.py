"""Links between the GPUs of one host: what stores, loads and a copy engine move, and what a post takes.

Example: on the H200's NVLink one writing thread block moves 20 GB/s and 16 fill the link's 346 GB/s; a load
waits for its answer, so that a reading block moves 8. A semaphore posted on the peer is seen 1.33 us later.
Figures and their sources are in `links/h200.toml`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from wavesim.errors import DescriptionError
from wavesim.model.reprs import repr_text
from wavesim.safe_io.bounds import MOST_NS, real, shown
from wavesim.safe_io.documents import read_toml

FOLDER = Path(__file__).parent / "links"
LEAST_RATE, MOST_RATE = 1e6, 1e15  # bytes/s: quotients of bytes and rates stay finite and countable
Access = Literal["write", "read", "reduce"]
RATES = ("write_bytes_per_s", "read_bytes_per_s", "reduce_bytes_per_s")


@dataclass(frozen=True)
class Link:
    """What one direction carries, by how many thread blocks move bytes at once; both directions at a time.

    `flag_ns`: from a post on the peer until a poll there sees it. Raises `DescriptionError` for rates that
    are none, or that name no single block.
    """

    name: str
    write_bytes_per_s: Mapping[int, float]
    read_bytes_per_s: Mapping[int, float]
    reduce_bytes_per_s: Mapping[int, float]
    copy_engine_bytes_per_s: float
    flag_ns: int
    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in RATES:
            rates = getattr(self, name)
            if not isinstance(rates, Mapping) or 1 not in rates:
                raise DescriptionError(
                    f"Link {self.name}: {name} is {shown(rates)}; give bytes per second by number of blocks, "
                    "with one block among them: {1: 20.2e9, 16: 302e9}"
                )
            for blocks, rate in rates.items():
                if type(blocks) is not int or blocks < 1:
                    raise DescriptionError(
                        f"Link {self.name}: {name} has {shown(blocks)} blocks; it must be an integer of "
                        "at least 1"
                    )
                real(f"Link {self.name}: {name} of {blocks} blocks", rate, LEAST_RATE, MOST_RATE)
        engine = f"Link {self.name}: copy_engine_bytes_per_s"
        real(engine, self.copy_engine_bytes_per_s, LEAST_RATE, MOST_RATE)
        if type(self.flag_ns) is not int or not 0 <= self.flag_ns <= MOST_NS:
            raise DescriptionError(
                f"Link {self.name}: flag_ns is {shown(self.flag_ns)}; it must be an integer from 0 to "
                f"{MOST_NS:,}"
            )

    def __hash__(self) -> int:
        return hash((self.name, self.copy_engine_bytes_per_s, self.flag_ns))

    def __repr__(self) -> str:
        return repr_text(
            "Link",
            f"{self.name}: {self.most('write') / 1e9:.4g} GB/s written, {self.most('read') / 1e9:.4g} read, "
            f"{self.copy_engine_bytes_per_s / 1e9:.4g} by a copy engine, a post {self.flag_ns:,} ns",
        )

    def rates(self, access: Access) -> Mapping[int, float]:
        """Bytes per second of one direction, by how many blocks write, read or reduce."""
        return {"write": self.write_bytes_per_s, "read": self.read_bytes_per_s}.get(
            access, self.reduce_bytes_per_s
        )

    def most(self, access: Access) -> float:
        """Bytes per second of one direction with as many blocks as fill it."""
        return max(self.rates(access).values())

    def bytes_per_s(self, access: Access, blocks: int) -> float:
        """Of so many blocks together: in proportion to them up to what fills the link, as measured."""
        known = sorted(self.rates(access).items())
        below = max((one for one in known if one[0] <= blocks), default=known[0])
        above = min((one for one in known if one[0] >= blocks), default=known[-1])
        if below[0] == above[0]:
            return below[1]
        share = (blocks - below[0]) / (above[0] - below[0])
        return below[1] + share * (above[1] - below[1])

    def scaled(self, factor: float) -> "Link":
        """What-if: all rates but that of a single block times `factor`; a post takes as long."""
        real(f"Link {self.name}: factor", factor, 1e-3, 1e3)
        most = {name: max(getattr(self, name).values()) for name in RATES}
        rates: dict[str, Any] = {
            name: {
                blocks: min(blocks * getattr(self, name)[1], most[name] * factor)
                for blocks in (1, 2, 4, 8, 16, 32, 64, 128, 256)
            }
            for name in RATES
        }
        engine = self.copy_engine_bytes_per_s * factor
        return replace(self, name=f"{self.name} x {factor:g}", copy_engine_bytes_per_s=engine, **rates)


@cache
def load_link(name: str) -> Link:
    """The link between devices of that name, or that of one's own file. Raises `DescriptionError`."""
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if path.parent == FOLDER and path.stem not in link_names():
        raise DescriptionError(
            f"no link between GPUs is known of {shown(name)}; known are {', '.join(link_names())}, or a "
            "file, such as link.toml"
        )
    return _read(name, path)


def link_names() -> tuple[str, ...]:
    """Names of the devices whose links are known."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def _read(name: str, path: Path) -> Link:
    data = dict(read_toml(path))
    data.pop("device", None)
    known = (*RATES, "copy_engine_bytes_per_s", "flag_ns", "sources")
    for key in data:
        if key not in known:
            raise DescriptionError(f"{path}: field {shown(key)} is unknown; known are {', '.join(known)}")
    for key in known[:-1]:
        if key not in data:
            raise DescriptionError(f"{path}: field '{key}' is missing; write {key} = what was measured")
    for key in RATES:
        if not isinstance(data[key], dict) or not all(count.isdecimal() for count in data[key]):
            raise DescriptionError(
                f"{path}: field '{key}' is {shown(data[key])}; write {key} = "
                f"{{ 1 = 20.2e9, 16 = 302e9 }}, bytes "
                "per second by number of blocks"
            )
        data[key] = {int(count): rate for count, rate in data[key].items()}
    return Link(name, **data)
