"""A verdict in words and as JSON: why it hangs or cannot, who holds what and waits for whom, what would help.

Example: "can hang: 80 blocks of schedulers hold 80 of 148 SMs of gpu0 and wait until all 128 blocks of
workers have ended; 68 of 128 blocks of workers find room, the next has none".
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from wavesim.safety.hang.layout import Holder, PoolLayout, holders_of, layouts_of, residency_lines
from wavesim.safety.hang.pools import HOST, Pool
from wavesim.safety.hang.verdict import HangVerdict
from wavesim.safety.hang.waits_for import Edge, blocks_text, circle_of, edges_of, unmet_text

VERBS = {"wait": "waits for ", "room": "has no room beside ", "turn": "comes after "}
LONGEST_HEAD = 100  # letters of the first line
MOST_NAMED = 6  # in one line
MOST_LISTED = 40  # operations in a text; the rest is counted
RESTS_ON = {
    "cuda": "what CUDA promises: every block waits only for blocks that have started",
    "seen": "blocks are issued wherever there is room, oldest launch first; CUDA does not promise it",
    "idle": "blocks are issued wherever there is room, which CUDA does not promise, and other work leaves "
    "{needed_sms} SMs of each device alone",
}


@dataclass(frozen=True)
class HangAnswer:
    """What is said of a verdict."""

    verdict: HangVerdict

    @cached_property
    def layouts(self) -> tuple[PoolLayout, ...]:
        """The SMs of the state in which nothing moves."""
        stuck = self.verdict.stuck
        return layouts_of(self.verdict.facts, stuck) if stuck else ()

    @cached_property
    def holders(self) -> tuple[Holder, ...]:
        """Who is there and waits."""
        stuck = self.verdict.stuck
        return holders_of(self.verdict.facts, stuck, self.layouts) if stuck else ()

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        verdict = self.verdict
        if verdict.can_hang is None:
            return f"not known: {'; '.join(verdict.unknown)}"
        if not verdict.can_hang and verdict.autopsy is not None:
            return "nobody is seen to wait for what was not posted"
        if not verdict.can_hang:
            words = RESTS_ON[verdict.basis or "cuda"].format(needed_sms=verdict.needed_sms)
            return f"cannot hang; rests on {words}" if verdict.facts.unmet else "cannot hang: no block waits"
        if verdict.autopsy is not None:
            return f"hangs: {self.why}"
        return f"{'hangs whatever the device does' if verdict.is_certain else 'can hang'}: {self.why}"

    @property
    def head(self) -> str:
        """The verdict and who waits for whom in at most `LONGEST_HEAD` letters; its name where that fits."""
        said, _, rest = self.headline.partition(": " if self.verdict.stuck is not None else "; rests on ")
        short = (self.circle_text or rest) if self.verdict.stuck is not None else ""
        words = ": ".join(filter(None, ("hangs always" if self.verdict.is_certain else said, short)))
        whole = f"{self.verdict.facts.situation.name}: {words}"
        return whole if len(whole) <= LONGEST_HEAD else _cut(words, LONGEST_HEAD)

    @property
    def _points(self) -> Sequence[str]:
        """What the first line leaves out."""
        name = self.verdict.facts.situation.name
        named = [] if self.head.startswith(f"{name}: ") else [f"in {name}"]
        if self.verdict.stuck is not None:
            return [*named, *_named(self._reasons)]
        return named if self.head.endswith(self.headline) else [*named, self.headline]

    @property
    def why(self) -> str:
        """Who holds what and who has no room, in one line; for a safe situation what that rests on."""
        return self.headline if self.verdict.stuck is None else "; ".join(_named(self._reasons))

    @property
    def _reasons(self) -> Sequence[str]:
        missing = self.verdict.autopsy.missing if self.verdict.autopsy else ()
        there = [*missing, *self._starved_lines(), *map(self.holder_text, self.holders)]
        return there or [*self._late_lines()]

    def name(self, number: int) -> str:
        """An operation's."""
        return self.verdict.facts.operations[number].name

    def holder_text(self, holder: Holder) -> str:
        """Who holds how much, and for what it waits."""
        kind = self.verdict.facts.operations[holder.number].kind
        name = self.name(holder.number)
        who = f"{blocks_text(holder.blocks, holder.size)} of {name}" if kind == "kernel" else f"{kind} {name}"
        what, is_alone = "", holder.size == 1
        if holder.pool is not None and holder.pool.device is not None:
            sms = f"{holder.sms} of {holder.pool.device.sm_count} SMs of {holder.pool.name}"
            what = f" {'holds' if is_alone else 'hold'} {sms} and"
        elif holder.pool is not None:
            what = " holds the thread of host functions and"
        return f"{who}{what} {self.reason_text(holder.number, is_one=is_alone)}"

    def reason_text(self, number: int, *, is_one: bool = False) -> str:
        """What keeps an operation's blocks, or its only one."""
        assert self.verdict.stuck is not None
        reason = self.verdict.stuck.reasons.get(number)
        if reason is None:
            return "does not end" if is_one else "do not end"
        return f"wait{'s' * is_one} {unmet_text(self.verdict.facts, reason, number)}"

    def _starved_lines(self) -> Iterator[str]:
        assert self.verdict.stuck is not None
        pools = self.verdict.facts.pools
        for pool, number in self.verdict.stuck.heads.items():
            size, operation = pools.size(number), self.verdict.facts.operations[number]
            if pool.device is None:
                yield f"host function {operation.name} stands behind another one"
            elif operation.is_cooperative and pools.capacity(number) < size:
                yield (
                    f"CUDA refuses the cooperative launch of {operation.name}: {size:,} blocks, of which "
                    f"{pool.name} holds {pools.capacity(number):,} at once ({pools.limiter(number)})"
                )
            elif operation.is_cooperative:
                yield f"{operation.name} finds no room for all its {size:,} blocks at once"
            else:
                placed = next((x.placed(number) for x in self.layouts if x.pool == pool), 0)
                yield (
                    f"{placed:,} of {size:,} blocks of {operation.name} find room on the "
                    f"{pool.device.sm_count} SMs of {pool.name} ({pools.limiter(number)}), the next has none"
                )

    def _late_lines(self) -> Iterator[str]:
        for edge in self.edges:
            if edge.kind == "turn":
                yield f"{self.name(edge.source)} has not been issued: {edge.words}"

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """Who waits for whom, and why."""
        stuck = self.verdict.stuck
        return edges_of(self.verdict.facts, stuck, self.holders) if stuck else ()

    @cached_property
    def circle(self) -> tuple[Edge, ...]:
        """Waits that lead back to where they begin; empty where there is none."""
        return circle_of(self.edges)

    @property
    def lines(self) -> tuple[str, ...]:
        """All of it for people."""
        return tuple(self._lines())

    def _lines(self) -> Iterator[str]:
        verdict = self.verdict
        situation = verdict.facts.situation
        yield self.head
        yield from (f"  - {words}" for words in self._points)
        if verdict.stuck is not None:
            yield from (f"  {line}" for line in islice(self._late_lines(), MOST_LISTED))
            if self.circle:
                yield f"  cycle: {self.circle_text}"
            if verdict.hangs_as_seen is not None and not verdict.is_certain:
                yield f"  {self._order_text}"
        if verdict.autopsy is not None:
            yield "counters:"
            yield from (f"  {line}" for line in verdict.autopsy.lines)
        if verdict.can_hang is not None:
            yield from (f"  not known: {words}" for words in verdict.unknown)
        yield from (f"  fix: {words}" for words in verdict.remedies)
        yield "residency:"
        yield from (f"  {line}" for line in self.residency)
        yield from (f"note: {note}" for note in (*situation.notes, *self.notes))

    @property
    def _order_text(self) -> str:
        if self.verdict.hangs_as_seen:
            return "it also can if blocks issue oldest launch first and higher priority first"
        return (
            "it does not if blocks issue oldest launch first and higher priority first: seen on the devices "
            "of docs/safety.md, not guaranteed by CUDA"
        )

    @property
    def circle_text(self) -> str:
        """The circle in one line."""
        return "; ".join(
            f"{self.name(edge.source)} {VERBS[edge.kind]}"
            + ("itself" if edge.target == edge.source else self.name(edge.target or 0))
            for edge in self.circle
        )

    @cached_property
    def residency(self) -> tuple[str, ...]:
        """Per part its SMs, per kernel what fits and what limits it; beside whom the next has no room."""
        return tuple(residency_lines(self.verdict.facts, self.layouts))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know of the rules that were used."""
        return tuple(self._notes())

    def _notes(self) -> Iterator[str]:
        facts = self.verdict.facts
        kernels = [kernel for kernel in facts.operations if kernel.is_kernel]
        if len({kernel.priority for kernel in kernels}) > 1:
            yield (
                "a priority decides whose block goes first among those that wait for room; a block that is "
                "resident stays until it ends"
            )
        for process, device in sorted(facts.shares_queues):
            of = f" of process {process}" if process else ""
            yield (
                f"more streams{of} than hardware queues of {device}: a launch may stand behind one of "
                "another stream (CUDA_DEVICE_MAX_CONNECTIONS)"
            )
        by_part: dict[str, set[str]] = {}
        for kernel in kernels:
            by_part.setdefault(kernel.device, set()).add(kernel.process)
        for part in facts.situation.devices:
            if len(by_part.get(part.name, ())) > 1 and not part.is_mps:
                yield (
                    f"processes on {part.name} share it in time, so that none holds another's SMs; not so "
                    "under MPS"
                )
        if any(kernel.cluster > 2 for kernel in kernels):
            yield ("clusters of more than 2 blocks are taken to fit on any neighbouring SMs; a GPU's may not")

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        verdict = self.verdict
        return {
            "situation": verdict.facts.situation.name,
            "can_deadlock": verdict.can_hang,
            "certain": verdict.is_certain,
            "why": self.why if verdict.stuck is not None else self.headline,
            "basis": verdict.basis,
            "as_seen": verdict.hangs_as_seen,
            "needed_sms": verdict.needed_sms if verdict.can_hang is False else None,
            "holders": [self._holder_json(holder) for holder in self.holders],
            "circle": [
                [self.name(edge.source), edge.kind, self.name(edge.target or 0)] for edge in self.circle
            ],
            "starved": [self._starved_json(pool, head) for pool, head in self._heads()],
            "late": list(islice(self._late_lines(), MOST_LISTED)),
            "unknown": list(verdict.unknown),
            "remedies": list(verdict.remedies),
            "residency": list(self.residency),
            "counters": verdict.autopsy.as_json() if verdict.autopsy else None,
            "notes": [*verdict.facts.situation.notes, *self.notes],
        }

    def _heads(self) -> Sequence[tuple[Pool, int]]:
        return list(self.verdict.stuck.heads.items()) if self.verdict.stuck else []

    def _holder_json(self, holder: Holder) -> dict[str, Any]:
        pool = holder.pool
        return {
            "operation": self.name(holder.number),
            "device": None if pool is None else pool.part,
            "blocks": holder.blocks,
            "of": holder.size,
            "sms": holder.sms,
            "sm_count": pool.device.sm_count if pool is not None and pool.device is not None else None,
            "waits": self.reason_text(holder.number),
        }

    def _starved_json(self, pool: Pool, head: int) -> dict[str, Any]:
        placed = next((layout.placed(head) for layout in self.layouts if layout.pool == pool), 0)
        return {
            "operation": self.name(head),
            "device": HOST if pool.device is None else pool.part,
            "blocks": placed,
            "of": self.verdict.facts.pools.size(head),
        }


def _named(words: Sequence[str]) -> list[str]:
    more = [f"and {len(words) - MOST_NAMED:,} more"] if len(words) > MOST_NAMED else []
    return [*words[:MOST_NAMED], *more]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3].rstrip()}..."
