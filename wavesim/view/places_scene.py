"""Places of semaphores as plain values for a browser that draws them: one hand-over, and whole runs.

Example: three bars of post, hop and look, the shortest in shared memory; below them the whole run under each
plan, and the SMs to which clusters that hold whole tile rows give work.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wavesim.labs.cluster_semaphores import ClusterPlacement, SemaphorePlaces
from wavesim.labs.waiting_places import WaitingPlace


@dataclass(frozen=True)
class ShownPlaces:
    """A recorded case with its semaphores in several places, and its rows in clusters (`placed_ns`)."""

    places: Sequence[WaitingPlace]
    runs: SemaphorePlaces
    placement: ClusterPlacement
    placed_ns: int


def scene_of_places(shown: ShownPlaces) -> dict[str, Any]:
    """All that is drawn; times in nanoseconds."""
    runs, placement = shown.runs, shown.placement
    rows = (
        ("stream order", runs.stream_ns),
        ("semaphores in global memory", runs.global_ns),
        ("as if all in shared memory", runs.cluster_ns),
        ("as if they cost nothing", runs.free_ns),
        (f"rows in clusters of {placement.blocks}", shown.placed_ns),
    )
    return {
        "title": _title(shown),
        "subtitle": _subtitle(shown),
        "handovers": [
            {
                "name": place.name,
                "post": place.post_ns,
                "hop": place.hop_ns,
                "look": place.look_ns,
                "source": place.source,
            }
            for place in shown.places
        ],
        "runs": [{"name": name, "ns": ns, "points": runs.gain_points(ns)} for name, ns in rows],
        "told": _told(shown.places),
        "sms": placement.sm_count,
        "blocks": placement.blocks,
        "clusters": placement.clusters,
        "groups": placement.groups,
        "most": placement.most_groups,
    }


def _title(shown: ShownPlaces) -> str:
    runs = shown.runs
    gain = runs.gain_points(shown.placed_ns) - runs.gain_points(runs.global_ns)
    word = "wins" if gain > 0 else "loses"
    return (
        f"{runs.case.tokens:,} tokens: of {runs.loss_points:.2f} points that semaphores cost, shared memory "
        f"would win {runs.won_points:.2f}; holding rows in clusters of {shown.placement.blocks} {word} "
        f"{abs(gain):,.1f}"
    )


def _told(places: Sequence[WaitingPlace]) -> str:
    return "hand-over: " + "; ".join(f"{place.name}, {place.source}" for place in places)


def _subtitle(shown: ShownPlaces) -> str:
    case, cluster = shown.runs.case, shown.places[1]
    return (
        f"simulated from the stream-sync recording of {case.workload} on one {case.device.upper()}, tiles of "
        f"{case.tile}, {case.order}; row semaphores; {cluster.hop_ns} ns from post to wait within a cluster"
    )
