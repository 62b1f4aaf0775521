"""Notebook 22: what a tile pays for its semaphore by place, which scopes a cluster takes, and recorded pairs.

Example: `tile_costs()` has a row for global memory, one for a cluster's shared memory and one for a server
block; `is_safe("a")` says of a protocol whether its consumer reads the new tile, whatever happens.
"""

from functools import cache

from wavesim.costs.waiting_places import SHIPPED, places_on, shipped_places
from wavesim.errors import DescriptionError
from wavesim.litmus.enumeration import outcomes
from wavesim.litmus.program import LitmusTest, LitmusThread
from wavesim.model.device import default_device
from wavesim.predict.cluster_semaphores import SemaphorePlaces
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import shown
from wavesim.teaching.shown import Shown
from wavesim.widgets.explorer import require_offered
from wavesim.widgets.place_explorer import BLOCKS, placed_ns, places_of

COMMAND = "python -m wavesim_gpu measure labs --only waiting_places --out DIR"
SIZES = (768, 1024, 2048, 3072)
# By letter: what the producer does behind its store, and what the consumer waits with. The barrier `ready` is
# in the consumer's shared memory, the tile in global memory, and both blocks in one cluster.
PROTOCOLS = {
    "a": ("mbarrier.arrive.release.cta [ready]", "mbarrier.try_wait.acquire.cta"),
    "b": ("mbarrier.arrive.release.cluster [ready]", "mbarrier.try_wait.acquire.cta"),
    "c": ("mbarrier.arrive.release.cluster [ready]", "mbarrier.try_wait.acquire.cluster"),
    "d": ("st.async [word], 1, [ready]", "mbarrier.try_wait.acquire.cluster"),
    "e": (
        "fence.acq_rel.cluster; mbarrier.arrive.relaxed.cluster [ready]",
        "mbarrier.try_wait.acquire.cluster",
    ),
}


def tile_costs() -> Shown:
    """Post, hop and look by place, in ns, with where each is from."""
    rows = [
        (one.name, f"{one.post_ns:,}", f"{one.hop_ns:,}", f"{one.look_ns:,}", one.source)
        for one in places_on(default_device())
    ]
    return Shown(("semaphore in", "post, ns", "to the wait, ns", "a look, ns", "from"), tuple(rows))


@typed
def moved(tokens: int) -> SemaphorePlaces:
    """Row semaphores of the recorded GPT-3 MLP in each place. Raises `DescriptionError`."""
    return places_of(tokens, places_on(default_device())[1].hop_ns)


@typed
def placed_points(tokens: int, blocks: int) -> float:
    """Gain of the same over stream order with whole rows in clusters of so many blocks, in points.

    Raises `DescriptionError`.
    """
    require_offered("blocks", blocks, BLOCKS)
    return moved(tokens).gain_points(placed_ns(tokens, blocks))


def recorded_table() -> Shown:
    """Gains of four sizes over stream order by where semaphores are, and with rows in clusters of 16."""
    cells = []
    for tokens in SIZES:
        found = moved(tokens)
        times = (found.global_ns, found.cluster_ns, found.server_ns, found.free_ns)
        gains = [found.gain_points(ns) for ns in times] + [placed_points(tokens, 16)]
        cells.append((f"{tokens:,}", *(f"{gain:+.2f}" for gain in gains)))
    titles = ("tokens", "global memory", "as if shared", "server", "as if free", "rows in clusters of 16")
    return Shown(titles, tuple(cells))


@typed
@cache
def is_safe(letter: str) -> bool:
    """Whether the consumer of that protocol can only read the new tile. Raises `DescriptionError`."""
    if letter not in PROTOCOLS:
        raise DescriptionError(
            f"is_safe: the protocol is {shown(letter)}; the table has {', '.join(PROTOCOLS)}"
        )
    post, wait = PROTOCOLS[letter]
    producer = ("st.weak [tile], 1", *post.split("; "))
    consumer = (f"wait {wait} [ready] >= 1", "ld.weak r, [tile]")
    threads = (
        LitmusThread("producer", "gpu0.cluster0.cta0", producer),
        LitmusThread("consumer", "gpu0.cluster0.cta1", consumer),
    )
    shared = {"ready", "word"} if "[word]" in post else {"ready"}
    return all(dict(one)["r"] == 1 for one in outcomes(LitmusTest(threads, shared=frozenset(shared))))


def protocol_table() -> Shown:
    """The five protocols, without their verdicts."""
    cells = tuple((letter, post, wait) for letter, (post, wait) in PROTOCOLS.items())
    return Shown(("", "the producer, behind its store", "the consumer waits with"), cells)


def measured_places() -> str:
    """What was measured, or how to measure it."""
    found = shipped_places()
    if found is None:
        return f"Not measured yet. On a GPU: {COMMAND}, then copy it to wavesim/costs/{SHIPPED.name}"
    return found.text()
