"""What a kernel's code does about dependent launch: whether and where it waits, and lets the next one start.

Example: of a kernel of 400 instructions 20 are reached before its griddepcontrol.wait: 5 % of its code may
run while the kernel before still does. It is a share of the code, not of time.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from wavesim.lint.check import findings_of
from wavesim.lint.code import Code
from wavesim.lint.files import listings_of
from wavesim.lint.finding import Known
from wavesim.lint.instruction import KernelCode, Listing, Op
from wavesim.lint.paths import walk

MOST_LETTERS, MOST_WORDS = 4_000, 100  # of a mangled name that are looked at
_LENGTH = re.compile(r"(?<!\d)\d{1,3}(?=[A-Za-z_])")  # a name's, in a mangled one: it stands before it


@dataclass(frozen=True)
class DeviceHalf:
    """One kernel of a binary, or `count` of them that a profile's name does not tell apart.

    `before_wait` and `after_trigger` are shares of its instructions, 0 to 1; `faults` is what lint finds
    wrong with its dependent launch.
    """

    kernel: str
    waits: bool
    triggers: bool
    before_wait: float | None = None
    after_trigger: float | None = None
    faults: tuple[str, ...] = ()
    count: int = 1

    @staticmethod
    def merged(halves: Sequence["DeviceHalf"]) -> "DeviceHalf | None":
        """What holds of all: it waits where each does, and faults are those of any."""
        if not halves:
            return None
        faults = tuple(dict.fromkeys(fault for half in halves for fault in half.faults))
        waits, triggers = all(half.waits for half in halves), all(half.triggers for half in halves)
        return replace(halves[0], waits=waits, triggers=triggers, faults=faults, count=len(halves))

    @property
    def words(self) -> set[str]:
        """The names that a mangled one spells, each behind its length; and the name itself."""
        text = self.kernel[:MOST_LETTERS]
        lengths = islice(_LENGTH.finditer(text), MOST_WORDS)
        return {self.kernel, *(text[at.end() : at.end() + int(at[0])] for at in lengths)}

    def as_json(self) -> dict[str, Any]:
        """Facts of the code."""
        return {
            "waits": self.waits,
            "triggers": self.triggers,
            "code_before_wait": self.before_wait,
            "code_after_trigger": self.after_trigger,
            "faults": list(self.faults),
            "instances": self.count,
        }


def halves_named(names: Iterable[str], halves: Sequence[DeviceHalf]) -> dict[str, "DeviceHalf | None"]:
    """The code of each kernel of a profile: of its instances those of that very name, else all whose function
    has the same word.
    """
    stems = {name: _stem(name) for name in names}
    known = dict[str, list[DeviceHalf]]((word, []) for word in (*stems, *stems.values()))
    for half in halves:
        for word in half.words & known.keys():
            known[word].append(half)
    return {
        name: DeviceHalf.merged([half for half in known[name] if half.kernel == name] or known[stem])
        for name, stem in stems.items()
    }


def _stem(demangled: str) -> str:
    """The function's own word in a demangled name, without namespaces, types and arguments."""
    words = demangled.partition("<")[0].partition("(")[0].split("::")[-1].split()
    return words[-1] if words else demangled


def halves_of(paths: Iterable[Path]) -> list[DeviceHalf]:
    """The kernels of binaries, PTX or folders; machine code counts where a file has both."""
    halves = []
    for path in paths:
        listings = listings_of(path)
        chosen = [listing for listing in listings if listing.language == "sass"] or listings
        kernels = ((kernel, listing) for listing in chosen for kernel in listing.kernels)
        halves += [_half(kernel, listing) for kernel, listing in kernels if kernel.is_entry]
    return list({half.kernel: half for half in halves}.values())


def _half(kernel: KernelCode, listing: Listing) -> DeviceHalf:
    ops = {instruction.op for instruction in kernel.instructions}
    waits, triggers = Op.GRID_WAIT in ops, Op.GRID_TRIGGER in ops
    if not waits and not triggers:
        return DeviceHalf(kernel.name, False, False)
    code = Code(kernel, listing, Known())
    reachable = _reached(code, [0], frozenset())
    before = _reached(code, [0], frozenset({Op.GRID_WAIT})) if waits else frozenset()
    starts = [way for i in code.having(Op.GRID_TRIGGER) for way in code.onward(i)]
    after = _reached(code, starts, frozenset())
    Code.forget_all()
    judged = findings_of(replace(listing, kernels=(kernel,)), Known(launched=frozenset({"*"})))
    wrong = {finding.rule for finding in judged if finding.verdict == "wrong" and "grid" in finding.rule}
    return DeviceHalf(
        kernel.name,
        waits,
        triggers,
        round(len(before) / len(reachable), 3) if waits else None,
        round(len(after) / len(reachable), 3) if triggers else None,
        tuple(sorted(wrong)),
    )


def _reached(code: Code, starts: list[int], stops: frozenset[Op]) -> frozenset[int]:
    def step(i: int, state: bool) -> bool | None:
        return None if code[i].op in stops else state

    reached = {i for i, _ in walk(code.onward, [(i, True) for i in starts], step)}
    return frozenset(i for i in reached if code[i].op not in stops)
