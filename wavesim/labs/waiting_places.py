"""Where a semaphore can live, and what a tile pays for it there: the post, its way, a look.

Example: a semaphore in global memory is seen 629 ns after its post on an H200; one in the waiting block's own
shared memory 281 ns after it. The post itself waits until the tile's stores have reached the L2, wherever
the flag is.
"""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from wavesim.costs.constants import MEASURED, read_device_file
from wavesim.costs.cost_model import CostModel
from wavesim.model.device import Device, default_device
from wavesim.safe_io.bounds import MOST_NS, bounded_text, real, whole
from wavesim.safe_io.documents import read_measured, read_toml

FIGURES = Path(__file__).with_suffix(".toml")
SHIPPED = Path(__file__).with_suffix(".json")
MOST_BYTES, MOST_CASES = 4_000_000, 10_000
GLOBAL, CLUSTER, SERVER = "global memory", "shared memory of the cluster", "a server block"
ARRIVE, OWN = "remote arrive", "own"  # the way and the look that a semaphore in a cluster would use


@dataclass(frozen=True)
class WaitingPlace:
    """A place of semaphores, in nanoseconds.

    - `post_ns`: a post behind a tile's stores, its release included.
    - `hop_ns`: from the post to the waiting block's seeing it.
    - `look_ns`: a wait that finds its semaphore ready.
    """

    name: str
    post_ns: int
    hop_ns: int
    look_ns: int
    source: str

    def __post_init__(self) -> None:
        for field in ("post_ns", "hop_ns", "look_ns"):
            whole(f"{self.name}: {field}", getattr(self, field), 0, MOST_NS)

    @property
    def tile_ns(self) -> int:
        """What lies between a producer tile's last store and its consumer's first load, and costs nothing
        where there are no semaphores.
        """
        return self.post_ns + self.hop_ns + self.look_ns


@dataclass(frozen=True)
class MeasuredPlaces:
    """What `waiting_places` wrote on one device; medians, in nanoseconds.

    - `grid_ns`: one way by a flag in global memory, within a GPC (True) and between two (False), where seen.
    - `cluster_ns`: one way within a cluster, by way, blocks of the cluster, and partner's rank.
    - `looks_ns`: one look by where it goes and how many blocks look.
    - `posts_ns`: what a post adds to a round that stores a tile, by where it goes.
    - `served_ns`: one way by way of a server block, by pairs of clients.
    - `clusters`: how many clusters of so many blocks can be resident at once.
    """

    device: str
    date: str
    commit: str
    gpcs: tuple[int, ...]
    clusters: dict[int, int]
    grid_ns: dict[bool, float]
    cluster_ns: dict[tuple[str, int, int], float]
    looks_ns: dict[tuple[str, int], float]
    posts_ns: dict[str, float]
    served_ns: dict[int, float]

    @property
    def provenance(self) -> str:
        """On what and when."""
        return f"measured on one {self.device}, {self.date}"

    def text(self) -> str:
        """A line for each thing that was measured."""
        lines = [self.provenance, f"SMs that met in clusters, by group: {', '.join(map(str, self.gpcs))}"]
        lines += [f"clusters of {size}: {count} at once" for size, count in self.clusters.items()]
        for same, ns in self.grid_ns.items():
            lines.append(f"global flag, {'within' if same else 'between'} these groups: {ns:,.0f} ns one way")
        for (way, blocks, partner), ns in self.cluster_ns.items():
            lines.append(f"{way}, cluster of {blocks}, to block {partner}: {ns:,.0f} ns one way")
        for (where, blocks), ns in self.looks_ns.items():
            lines.append(f"a look, {where}, {blocks} blocks look: {ns:,.0f} ns")
        lines += [f"a post behind a tile, {where}: {ns:,.0f} ns" for where, ns in self.posts_ns.items()]
        lines += [f"server, {pairs} pairs: {ns:,.0f} ns one way" for pairs, ns in self.served_ns.items()]
        return "\n".join(lines)


@cache
def published() -> dict[str, Any]:
    """Figures of others, each with its source."""
    return read_toml(FIGURES)


def places_on(device: Device, hop_ns: int | None = None) -> tuple[WaitingPlace, ...]:
    """Global memory, shared memory of the cluster, and a server block, on a device.

    Global memory's figures were measured on the device, or on the default one. Where the others were not
    measured, a cluster's hop is what others have published, or `hop_ns`, and its post is global memory's; a
    server's hop is two ways through global memory, as its clients reach it only there. Where they were, a
    cluster's post takes longer than that by as much as the same run measured.
    """
    known = _measured(device)
    post, hop, look = (known[name] for name in ("post_ns", "latency_ns", "poll_ns"))
    per_ns = device.clock_hz / 1e9
    remote, own = (round(published()[name]["value"] / per_ns) for name in ("remote_cycles", "own_cycles"))
    found, cluster_post = shipped_places(), post
    if found is not None:
        remote, own = round(_arrival(found)), round(found.looks_ns[OWN, min(_sizes(found))])
        cluster_post += round(found.posts_ns["remote"] - found.posts_ns["global"])
    served = 2 * hop if found is None else round(found.served_ns[max(found.served_ns)])
    told = "published figures" if found is None else found.provenance
    if hop_ns not in (None, remote):
        told = "as set"
    return (
        WaitingPlace(GLOBAL, post, hop, look, known["told"]),
        WaitingPlace(CLUSTER, cluster_post, remote if hop_ns is None else hop_ns, own, told),
        WaitingPlace(SERVER, post, served, look, "two ways" if found is None else found.provenance),
    )


def _measured(device: Device) -> dict[str, Any]:
    """Post, one way and look as `characterise` measured them, and on what."""
    path = MEASURED / f"{device.name}.toml"
    name = device.name if path.is_file() else default_device().name
    constants = read_device_file(MEASURED / f"{name}.toml").constants
    found = {
        full: constants[full] for full in ("overheads.post_ns", "semaphore.latency_ns", "overheads.poll_ns")
    }
    told = f"measured on one {name.upper()}, {constants['semaphore.latency_ns'].date}"
    return {**{full.partition(".")[2]: one.value for full, one in found.items()}, "told": told}


def _sizes(found: MeasuredPlaces) -> list[int]:
    return [blocks for where, blocks in found.looks_ns if where == OWN]


def _arrival(found: MeasuredPlaces) -> float:
    return median(ns for (way, _, _), ns in found.cluster_ns.items() if way == ARRIVE)


def costs_at(costs: CostModel, place: WaitingPlace, device: Device) -> CostModel:
    """Costs as calibrated with semaphores in global memory, for semaphores in another place.

    Posts and looks change by as much as the place's differ. `costs` is taken to say nothing of the hop.
    """
    usual = places_on(device)[0]
    poll_ns = max(0, costs.poll_ns - usual.look_ns + place.look_ns)
    post_ns = max(0, costs.post_ns - usual.post_ns + place.post_ns)
    return replace(costs, poll_ns=poll_ns, post_ns=post_ns, post_visibility_ns=place.hop_ns)


def without_waits(costs: CostModel) -> CostModel:
    """Semaphores that cost nothing at all: the most that any place of theirs could win."""
    return replace(
        costs,
        poll_ns=0,
        wait_ns=0,
        ready_poll_ns=0,
        refill_ns=0,
        tma_refill_ns=0,
        wait_test_ns=0,
        post_ns=0,
        post_visibility_ns=0,
    )


def read_places(path: Path) -> MeasuredPlaces:
    """A file of `waiting_places`. Raises `RecordingError` naming the file and what is wrong."""
    return read_measured(path, MOST_BYTES, "waiting_places", _places)


def shipped_places() -> MeasuredPlaces | None:
    """What was measured and is shipped; None as long as nothing was."""
    return read_places(SHIPPED) if SHIPPED.is_file() else None


def _places(data: dict[str, Any]) -> MeasuredPlaces:
    for name in ("grid", "cluster", "looks", "served"):
        whole(name, len(data[name]), 1, MOST_CASES)
    homes = {bool(one["is_same_gpc"]) for one in data["grid"]}
    posts = {name: _median(name, times) for name, times in data["tile_posts_ns"].items()}
    return MeasuredPlaces(
        device=bounded_text("device", data["device"]["name"]),
        date=bounded_text("date", data["date"]),
        commit=bounded_text("commit", data["commit"]),
        gpcs=tuple(whole("gpcs", one, 1, 1 << 16) for one in data["gpcs"]),
        clusters={whole("clusters", int(k), 1): whole("clusters", n) for k, n in data["clusters"].items()},
        grid_ns={
            same: _median("grid", [one["one_way_ns"] for one in data["grid"] if one["is_same_gpc"] == same])
            for same in sorted(homes)
        },
        cluster_ns={
            (
                bounded_text("way", one["way"]),
                whole("blocks", one["blocks"], 1),
                whole("partner", one["partner"]),
            ): (_median("cluster", one["one_way_ns"]))
            for one in data["cluster"]
        },
        looks_ns={
            (bounded_text("where", one["where"]), whole("blocks", one["blocks"], 1)): _median(
                "looks", one["look_ns"]
            )
            for one in data["looks"]
        },
        posts_ns={name: ns - posts["nothing"] for name, ns in posts.items() if name != "nothing"},
        served_ns={
            whole("pairs", one["pairs"], 1): _median("served", one["one_way_ns"]) for one in data["served"]
        },
    )


def _median(name: str, times: Any) -> float:
    return median(real(name, one, 0.0, 1e12) for one in times)
