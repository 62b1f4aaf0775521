"""Notebook 22: what a tile pays for its semaphore by place, which scopes a cluster takes, and recorded pairs.

Example: `tile_costs()` has a row for global memory, one for a cluster's shared memory and one for a server
block; `is_safe("a")` says of a protocol whether its consumer reads the new tile, whatever happens.
"""

from functools import cache
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.labs.cluster_semaphores import SemaphorePlaces, placement_of
from wavesim.labs.waiting_places import places_on, shipped_places
from wavesim.litmus.enumeration import outcomes
from wavesim.litmus.program import LitmusTest, LitmusThread
from wavesim.model.device import default_device
from wavesim.plan.tile_groups import groups_of
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import shown
from wavesim.teaching.exercises import require
from wavesim.teaching.shown import Shown
from wavesim.widgets.explorer import require_offered
from wavesim.widgets.place_explorer import BLOCKS, placed_ns, places_of
from wavesim.workloads.mlps import gpt3_mlp

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
# A hand-over in round figures: the post's fence, the way by L2 and in a cluster, a look there and at home.
FENCE_NS, FAR_NS, NEAR_NS, FAR_LOOK_NS, NEAR_LOOK_NS = 600, 600, 100, 200, 20
SMS, TOKENS, FEW_TOKENS, CLUSTERS = 132, 1024, 768, (16, 8)
HINTS = {
    "a": "In whose scope is the other block?",
    "b": "Is the block that arrived within the wait's scope?",
    "d": "What does st.async publish besides its own word?",
}
POLL_BYTES, POLL_NS, L2_BYTES_PER_NS = 32, 150, 9_000


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
    """What was measured."""
    found = shipped_places()
    assert found is not None, "measured places ship with wavesim"
    return found.text()


def _hand_over(_: float) -> dict[str, float]:
    """Nanoseconds won per hand-over by moving the flag."""
    way, look = FAR_NS - NEAR_NS, FAR_LOOK_NS - NEAR_LOOK_NS
    return {"with_fence": way + look + FENCE_NS, "way": way, "look": look, "won": way + look}


def _grade_scopes(answer: Any) -> str:
    """The letters of the protocols that can only return the new tile."""
    letters = _letters(answer)
    wrong = sorted(letter for letter in letters if not is_safe(letter))
    missing = sorted(letter for letter in PROTOCOLS if is_safe(letter) and letter not in letters)
    require(not wrong, f"{', '.join(wrong)} may return the old tile. {HINTS.get(''.join(wrong[:1]), '')}")
    require(not missing, f"of those left out {len(missing)} can only return the new tile.")
    return "Both ends name the cluster, and something orders the tile's store before the arrival."


def _letters(answer: Any) -> set[str]:
    if isinstance(answer, str):
        words = answer.casefold().replace(",", " ").split()
        answer = list(words[0]) if len(words) == 1 else words
    is_many = isinstance(answer, set | frozenset | list | tuple | dict)
    require(is_many, f"{answer!r}: give the letters of the protocols that are right, such as {{'a', 'b'}}.")
    found = {one.strip().casefold() if isinstance(one, str) else one for one in answer}
    unknown = [one for one in found if one not in PROTOCOLS]
    require(not unknown, f"{unknown[0] if unknown else ''!r} is none of {', '.join(PROTOCOLS)}.")
    return found


def _groups() -> dict[str, int]:
    """(tiles that must share a cluster, how many such groups)."""
    groups = groups_of(gpt3_mlp(TOKENS))
    return {"tiles": len(groups[0]), "groups": len(groups)}


def _placement() -> dict[str, int]:
    """SMs with work at 768 tokens with clusters of 16 and of 8."""
    facts: dict[str, int] = {}
    for blocks in CLUSTERS:
        placement = placement_of(gpt3_mlp(FEW_TOKENS), blocks, SMS)
        facts |= {f"in_{blocks}": placement.clusters * blocks, f"busy_{blocks}": placement.busy_sms}
        facts["rows"] = placement.groups
    return facts


def _polls(percent: float) -> dict[str, Any]:
    """Percent of the L2's bandwidth that polling takes."""
    truth = 100 * SMS * POLL_BYTES / POLL_NS / L2_BYTES_PER_NS
    return {"percent": truth, "is_percent": abs(100 * percent - truth) > 0.02}


GRADERS = {
    "22.1": _hand_over,
    "22.2": _grade_scopes,
    "22.3": _groups,
    "22.4": _placement,
    "22.5": _polls,
}
