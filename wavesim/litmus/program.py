"""Litmus tests: a few threads somewhere on the GPUs, each a few instructions, and the memory that they share.

Example: message passing. The producer stores 42 and posts; the consumer waits and reads:

    LitmusTest((
        LitmusThread("producer", "gpu0.cta0", ("st.weak [tile], 42", "st.release.gpu [flag], 1")),
        LitmusThread("consumer", "gpu0.cta1", ("wait ld.acquire.gpu [flag] >= 1", "ld.weak r, [tile]")),
    ))

Registers belong to the whole test: give every load its own.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from wavesim.errors import DescriptionError
from wavesim.litmus.statement import Statement, statement_of

MAX_STATEMENTS = 40
_PLACE = re.compile(r"gpu(\d{1,3})(?:\.cluster(\d{1,3}))?\.cta(\d{1,3})", re.ASCII)
Place = tuple[int, str, int]
"""GPU, cluster and block; a block without a cluster is one of its own."""


@dataclass(frozen=True)
class LitmusThread:
    """One thread: where it runs (`gpu0.cta1`, `gpu0.cluster0.cta1`) and what it does.

    `kernel`: the grid that it belongs to. `after`: kernels that have ended before it begins, as on one
    stream.
    """

    name: str
    at: str
    code: tuple[str, ...]
    kernel: str = ""
    after: tuple[str, ...] = ()

    @cached_property
    def place(self) -> Place:
        """Raises `DescriptionError` for a place that is not written as above."""
        match = _PLACE.fullmatch(self.at)
        if match is None:
            raise DescriptionError(f"litmus thread {self.name}: at {self.at!r}; write it like gpu0.cta1")
        gpu, cluster, cta = match.groups()
        return int(gpu), f"cluster{cluster}" if cluster else f"cta{cta}", int(cta)

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """Its instructions, taken apart."""
        return tuple(map(statement_of, self.code))


@dataclass(frozen=True)
class LitmusTest:
    """Threads and memory. Variables hold 0 at first unless `memory` says otherwise.

    `shared`: variables in shared memory, the others are global. `aliases`: variables that are a second
    address of another one. `final`: variables whose last value is part of an outcome.

    Raises `DescriptionError` for what is no instruction, too many of them, and registers of one name.
    """

    threads: tuple[LitmusThread, ...]
    memory: Mapping[str, int] = field(default_factory=dict)
    shared: frozenset[str] = frozenset()
    aliases: Mapping[str, str] = field(default_factory=dict)
    final: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        count = sum(len(thread.statements) for thread in self.threads)
        if count > MAX_STATEMENTS:
            raise DescriptionError(
                f"litmus test: {count} instructions; executions of {MAX_STATEMENTS} are tried"
            )
        for thread in self.threads:
            assert thread.place
        names = [name for thread in self.threads for name in map(destination, thread.statements) if name]
        for name in names:
            if names.count(name) > 1:
                raise DescriptionError(
                    f"litmus test: two loads into {name}; give every load its own register"
                )

    @property
    def variables(self) -> tuple[str, ...]:
        """Every variable, sorted."""
        named = {v for thread in self.threads for statement in thread.statements for v in statement.variables}
        return tuple(sorted(named | set(self.memory)))

    def memory_of(self, variable: str) -> str:
        """The place that a variable names: itself, or what it is an alias of."""
        return self.aliases.get(variable, variable)

    def first_value(self, variable: str) -> int:
        """What it holds before any thread begins."""
        return self.memory.get(self.memory_of(variable), 0)


def destination(statement: Statement) -> str:
    """The register that an instruction loads into, or ""."""
    loads = statement.what in ("ld", "atom") and statement.values
    return statement.values[0] if loads else ""
