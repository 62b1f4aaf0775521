"""Megakernels: the stages of a chain in one persistent kernel, whose loader runs ahead of the waits.

Example: `Plan(Megakernel(ring_bytes=196_608), sync=Semaphores(GridSync()))`, in a word
"megakernel:ring=196608", gives each SM a list of items of all stages. While its warps wait for the stage
before, the weights of its next items go on arriving, 192 KB of them. `wavesim.plan.work_lists` makes the
lists.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from heapq import heapify, heappop, heappush
from itertools import accumulate, repeat
from typing import ClassVar, Literal, get_args

from wavesim.errors import DescriptionError
from wavesim.model.kernel import require_positive
from wavesim.plan.parts import Traits
from wavesim.plan.schedule import Schedule
from wavesim.safe_io.bounds import plain_int, shown, whole

Placement = Literal["balanced", "continued", "restarted"]
CHUNK_BYTES = 16_384
MOST_GROUPS = 12
# By its word in a plan's name, each field that has one.
_WORDS = {
    "ring": "ring_bytes",
    "chunk": "chunk_bytes",
    "groups": "groups",
    "flight": "in_flight",
    "sms": "sms",
    "place": "placement",
}


@dataclass(frozen=True, repr=False)
class Megakernel(Schedule):
    """One thread block per SM, each with a list of items: stage, tile, split, what to wait for and to post.

    - `ring_bytes`: shared memory that a loader fills with weights and cached keys, ahead of any wait; 0 for
      all that is left beside the activations. `chunk_bytes`: of one slot of it, one bulk copy's.
    - `in_flight`: chunks that are on their way at most, of an SM; 0 for as many as the ring holds.
    - `groups` of warps take the items of an SM in turn.
    - `sms`: thread blocks; 0 for one on each SM.
    - `placement`: an SM's share of a stage. "restarted" deals each stage's items out from SM 0 on,
      "continued" goes on after the SM that got the last item of the stage before. "balanced" gives each item
      to the SM with the fewest bytes in all, but to none more than an even share of the stage.
    """

    ring_bytes: int = 0
    chunk_bytes: int = CHUNK_BYTES
    groups: int = 1
    in_flight: int = 0
    sms: int = 0
    placement: Placement = "balanced"

    has_work_lists: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_positive("Megakernel", chunk_bytes=self.chunk_bytes, groups=self.groups)
        whole("Megakernel: groups", self.groups, least=1, most=MOST_GROUPS)
        whole("Megakernel: ring_bytes", self.ring_bytes)
        whole("Megakernel: sms", self.sms)
        whole("Megakernel: in_flight", self.in_flight)
        if self.ring_bytes and self.ring_bytes < self.chunk_bytes:
            raise DescriptionError(
                f"Megakernel: ring_bytes is {self.ring_bytes}; it must hold at least one chunk of "
                f"{self.chunk_bytes}, or be 0 for all the shared memory there is"
            )
        if self.placement not in get_args(Placement):
            known = " or ".join(map(repr, get_args(Placement)))
            raise DescriptionError(f"Megakernel: placement is {shown(self.placement)}; it must be {known}")

    @property
    def is_fused(self) -> bool:
        return True

    @property
    def word(self) -> str:
        usual = {field.name: field.default for field in fields(self)}
        said = ((word, name) for word, name in _WORDS.items() if getattr(self, name) != usual[name])
        return ":".join(["megakernel", *(f"{word}={getattr(self, name)}" for word, name in said)])

    @property
    def text(self) -> str:
        ring = f", {self.ring_bytes:,} bytes ahead" if self.ring_bytes else ""
        return f"megakernel{ring}"

    @property
    def caveat(self) -> str:
        return "its constants are fitted to steps of one sequence; more rows are a guess"

    @property
    def why_safe(self) -> str:
        return (
            "its blocks, at most one per SM, are resident together (a cooperative launch), and every "
            "list has the items of a stage before those that wait for it"
        )

    def refusal(self, traits: Traits) -> str:
        if not traits.has_semaphores:
            return "its items wait for counters in memory. Use Semaphores(GridSync())"
        return ""

    def block_count(self, items: int, slots: int) -> int:
        return min(self.sms or slots, slots)

    def places(self, sizes: Sequence[Sequence[int]], sms: int) -> list[list[int]]:
        """The SM of each item, by stage, from the bytes that each loads."""
        if self.placement == "balanced":
            return _balanced(sizes, sms)
        starts = accumulate(map(len, sizes), initial=0) if self.placement == "continued" else repeat(0)
        return [
            [(start + place) % sms for place in range(len(own))]
            for own, start in zip(sizes, starts, strict=False)
        ]


def _balanced(sizes: Sequence[Sequence[int]], sms: int) -> list[list[int]]:
    """The stage with the most items comes last: one item more on an SM is the least of it there. Of those
    with as many the one with the largest comes first.
    """
    load, places = [0] * sms, [list[int]() for _ in sizes]
    by_count = sorted(range(len(sizes)), key=lambda stage: (len(sizes[stage]), -sum(sizes[stage])))
    for stage in by_count:
        most = -(-len(sizes[stage]) // sms)
        free = [(bytes_, sm, 0) for sm, bytes_ in enumerate(load)]
        heapify(free)
        for size in sizes[stage]:
            bytes_, sm, count = heappop(free)
            places[stage].append(sm)
            load[sm] = bytes_ + size
            if count + 1 < most:
                heappush(free, (load[sm], sm, count + 1))
    return places


def megakernel_of(setting: str) -> Megakernel:
    """The schedule of a word's settings, such as "ring=49152:groups=2". Raises `ValueError`."""
    values: dict[str, int | str] = {}
    for part in filter(None, setting.split(":")):
        word, _, value = part.partition("=")
        if word not in _WORDS or _WORDS[word] in values:
            raise ValueError(part)
        values[_WORDS[word]] = value if word == "place" else plain_int(value)
    return Megakernel(**values)  # type: ignore[arg-type]  # checked as it is built
