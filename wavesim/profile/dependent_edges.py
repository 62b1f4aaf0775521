"""Edges of a stream: launched dependent or not, what the device code does about it, what overlap that wins.

Example: 34 kernels are launched by cudaLaunchKernelExC with programmatic serialization, and none of them has
a griddepcontrol.wait: nothing overlaps, or what overlaps reads data that is not written yet.

A profile has no field for the launch attribute. Kernels of one stream that overlap were launched dependent; a
call without attributes (cudaLaunchKernel) launches none; of the others the profile does not say.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wavesim.errors import WavesimError
from wavesim.plan.parsing import parse_plan
from wavesim.predict.defaults import described_costs
from wavesim.profile.advice import Advice, Pair
from wavesim.profile.device_half import DeviceHalf, halves_named
from wavesim.profile.pair_file import NOTHING_SAID, pair_description
from wavesim.sim.simulation import simulate

STREAM, DEPENDENT = "stream", "pdl"
MOST_BLOCKS = 40_000  # of both kernels: a second each
NOT_SAID = "the profile does not say"


@dataclass(frozen=True)
class StreamEdge:
    """A pair of kernels that follow each other, with the device code of both where it was given.

    `possible_ns` is what dependent launch wins a launch in the simulator, from the kernels' times alone and
    as if the consumer read the producer; None with `why` where it was not simulated.
    """

    pair: Pair
    producer: DeviceHalf | None
    consumer: DeviceHalf | None
    possible_ns: float | None = None
    why: str = ""

    @property
    def is_dependent(self) -> bool | None:
        """Whether the consumer is launched dependent; None where the profile does not say."""
        if self.pair.overlapped:
            return True
        return False if self.pair.plain == self.pair.count else None

    @property
    def how(self) -> str:
        """How it is known."""
        pair = self.pair
        if pair.overlapped:
            return f"{pair.overlapped} of {pair.count} launches overlap"
        if self.is_dependent is False:
            return "launched by a call without attributes"
        if pair.replayed:
            return f"{NOT_SAID}: a CUDA graph launches it"
        return (
            f"{NOT_SAID}: {'launched by cudaLaunchKernelEx' if pair.extended else 'no launch call recorded'}"
        )

    @property
    def achieved_ns(self) -> float:
        """By how much a launch overlaps the one before, on average."""
        return self.pair.overlap_ns / self.pair.count

    @property
    def change(self) -> str:
        """What to change."""
        waits = None if self.consumer is None else self.consumer.waits
        if self.is_dependent is False:
            return _unwired(waits)
        if self.is_dependent and waits is False:
            return "wrong if it reads the kernel before: it never waits; add cudaGridDependencySynchronize()"
        if self.is_dependent is None and waits is None:
            return "its code is not known: give the binaries"
        return self._earlier() or ("nothing: it overlaps" if self.is_dependent else _ASKS)

    def _earlier(self) -> str:
        """What lets more of the two overlap; "" where nothing in their code is late."""
        before, own = self.producer, self.consumer
        if before is not None and not before.triggers:
            return "let the kernel before call cudaTriggerProgrammaticLaunchCompletion()"
        late = before.after_trigger if before is not None else None
        if late is not None and late < LATE:
            return f"trigger earlier: {late:.0%} of the code of the kernel before comes after its trigger"
        early = own.before_wait if own is not None else None
        if early is not None and early < LATE:
            return f"wait later: {early:.0%} of its code comes before the wait"
        return ""

    def as_json(self) -> dict[str, Any]:
        """With times in ns a launch; None where not known."""
        pair = self.pair
        halves = (("producer", pair.producer, self.producer), ("consumer", pair.consumer, self.consumer))
        return {
            "pair": pair.number,
            **{name: {"kernel": k.label, **(half.as_json() if half else {})} for name, k, half in halves},
            "count": pair.count,
            "launched_dependent": self.is_dependent,
            "how": self.how,
            "overlap_measured_ns": round(self.achieved_ns),
            "gap_measured_ns": round(pair.gap_ns / pair.count),
            "overlap_possible_simulated_ns": None if self.possible_ns is None else round(self.possible_ns),
            "not_simulated": self.why,
            "change": self.change,
        }


_ASKS = "check that its launch asks for programmatic stream serialization: nothing overlaps"
LATE = 0.02  # of a kernel's instructions


def _unwired(waits: bool | None) -> str:
    launch = "launch it with cudaLaunchKernelExC and programmatic stream serialization"
    if waits is None:
        return f"{launch}, once its code waits (cudaGridDependencySynchronize())"
    return f"its code waits: {launch}" if waits else f"add cudaGridDependencySynchronize(), then {launch}"


def edges_of(advice: Advice, halves: Sequence[DeviceHalf], count: int, seconds: float) -> list[StreamEdge]:
    """The edges, those that took most time first; of `count` the overlap is simulated, in some seconds."""
    until = time.monotonic() + seconds
    edges, kernels = [], [kernel for pair in advice.pairs for kernel in (pair.producer, pair.consumer)]
    code = halves_named({kernel.shape.name for kernel in kernels}, halves)
    for place, pair in enumerate(sorted(advice.pairs, key=_time_ns, reverse=True)):
        known = [code[kernel.shape.name] for kernel in (pair.producer, pair.consumer)]
        possible, why = (None, "not among the first") if place >= count else _possible(pair, until)
        edges.append(StreamEdge(pair, known[0], known[1], possible, why))
    return edges


def _time_ns(pair: Pair) -> float:
    return pair.count * (pair.producer.mean_ns + pair.consumer.mean_ns)


def _possible(pair: Pair, until: float) -> tuple[float | None, str]:
    blocks = (pair.producer.shape.blocks or 0) + (pair.consumer.shape.blocks or 0)
    if not pair.is_visible:
        return None, str(pair.producer.blind or pair.consumer.blind)
    if blocks > MOST_BLOCKS or time.monotonic() > until:
        return None, f"over {MOST_BLOCKS:,} blocks" if blocks > MOST_BLOCKS else "the time is up"
    try:
        described = pair_description(pair, NOTHING_SAID)
        costs = described_costs(described.pipeline, described.device, described.kernel_ns).model
        plans = map(parse_plan, (STREAM, DEPENDENT))
        times = [simulate(described.pipeline, plan, described.device, costs).makespan_ns for plan in plans]
        return max(0.0, float(times[0] - times[1])), ""
    except WavesimError as error:
        return None, str(error)


def verdict(edges: Sequence[StreamEdge], has_code: bool) -> str:
    """All edges in one line."""
    wired = [edge for edge in edges if edge.is_dependent]
    maybe = [edge for edge in edges if edge.is_dependent is None]
    waiting = [edge for edge in edges if edge.consumer is not None and edge.consumer.waits]
    idle = [edge for edge in waiting if edge.is_dependent is False]
    said = [f"{len(wired) or 'none'} of {len(edges)} sites seen wired"]
    if maybe:
        said.append(f"of {len(maybe)} the profile does not say")
    if has_code:
        number = len(waiting) - len(idle)
        said.append(f"{number or 'none'} {'wait' if number > 1 else 'waits'} on the device")
    if idle:
        said.append(f"{len(idle)} that would wait are launched without the attribute")
    won = sum(edge.pair.overlap_ns for edge in edges)
    return f"{', '.join(said)}; {won / 1_000:,.1f} us overlap, measured"
