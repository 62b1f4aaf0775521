"""Litmus tests: a few threads somewhere on the GPUs, each a few instructions, and the memory that they share.

Example: message passing. The producer stores 42 and posts; the consumer waits and reads:

    LitmusTest((
        LitmusThread("producer", "gpu0.cta0", ("st.weak [tile], 42", "st.release.gpu [flag], 1")),
        LitmusThread("consumer", "gpu0.cta1", ("wait ld.acquire.gpu [flag] >= 1", "ld.weak r, [tile]")),
    ))

Registers belong to the whole test: give every load its own. `wait` is the last look of a spinning loop, known
to return at least 1; `@turn=1 ld.weak sum, [part]` runs where register `turn` holds 1. PTX's types, vectors
and address arithmetic are left out: a variable is one word and one address, unless `aliases` joins two.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from wavesim.errors import DescriptionError

SCOPES = ("cta", "cluster", "gpu", "sys")
ORDERS = ("weak", "relaxed", "acquire", "release", "acq_rel", "sc")
# By which proxy an instruction with this word accesses memory, or which one a proxy fence orders; else the
# generic one.
PROXIES = {"nc": "texture"} | {name: name for name in ("texture", "surface", "constant", "alias")}
ATOMICS = {"add": 1, "sub": 1, "exch": 1, "cas": 2}  # and how many operands they take
MAX_LETTERS = 200

_COMPARE = r"(?P<compare>>=|<=|==|!=|<|>|=)\s*(?P<awaited>-?\d+)"
_LINE = re.compile(
    r"(?:@(?P<guard>\w+)(?P<guard_compare>>=|<=|!=|=|<|>)(?P<guard_value>-?\d+)\s+)?"
    r"(?P<wait>wait\s+)?(?P<what>[a-z][\w.:]*)(?:\s+(?P<operands>.*))?",
    re.ASCII,
)
_OPERAND = re.compile(r"\[(?P<variable>\w+)\]|(?P<name>[A-Za-z_]\w*)|(?P<number>-?\d{1,9})", re.ASCII)


@dataclass(frozen=True)
class ValueTest:
    """What a value is compared with: `>= 1`."""

    sign: str
    value: int

    def holds(self, value: int) -> bool:
        """Whether `value` compares so."""
        return {
            ">=": value >= self.value,
            "<=": value <= self.value,
            ">": value > self.value,
            "<": value < self.value,
            "!=": value != self.value,
        }.get(self.sign, value == self.value)


@dataclass(frozen=True)
class Statement:
    """One instruction. `operands`: variables as `[x]`, registers by name, constants as digits.

    `order` and `scope` are "" where the instruction has none. `guard`: register and comparison under which it
    is executed. `awaited`: what a load is known to return.
    """

    text: str
    what: str
    order: str = ""
    scope: str = ""
    proxy: str = "generic"
    operands: tuple[str, ...] = ()
    guard: tuple[str, ValueTest] | None = None
    awaited: ValueTest | None = None
    suffixes: tuple[str, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables in brackets, in the order written."""
        return tuple(operand[1:-1] for operand in self.operands if operand.startswith("["))

    @property
    def values(self) -> tuple[str, ...]:
        """Registers and constants, in the order written."""
        return tuple(operand for operand in self.operands if not operand.startswith("["))


@lru_cache(maxsize=4096)
def statement_of(text: str) -> Statement:
    """Takes a line apart. Raises `DescriptionError` for what is no instruction of a litmus test."""
    shown = text[:MAX_LETTERS]
    match = _LINE.fullmatch(text.strip()) if len(text) <= MAX_LETTERS else None
    if match is None:
        raise DescriptionError(f"litmus test: {shown!r} is no instruction; write it like st.weak [x], 1")
    operands, awaited = match["operands"] or "", None
    if match["wait"]:
        compared = re.fullmatch(rf"(?P<rest>.*\])\s*{_COMPARE}", operands)
        if compared is None:
            raise DescriptionError(f"litmus test: {shown!r} does not say for what; end it like >= 1")
        operands, awaited = compared["rest"], ValueTest(compared["compare"], int(compared["awaited"]))
    guard = None
    if match["guard"]:
        guard = match["guard"], ValueTest(match["guard_compare"], int(match["guard_value"]))
    words = match["what"].split(".")
    known = [*SCOPES, *ORDERS]
    order = next((word for word in words[1:] if word in ORDERS), "")
    scope = next((word for word in words[1:] if word in SCOPES), "")
    if words[1:2] == ["volatile"]:
        order, scope = "relaxed", "sys"
    return _checked(
        Statement(
            text=text.strip(),
            what=words[0],
            order=order,
            scope=scope,
            proxy=_proxy(words),
            operands=tuple(_operands(operands, shown)),
            guard=guard,
            awaited=awaited,
            suffixes=tuple(word for word in words[1:] if word not in known),
        ),
        shown,
    )


def _proxy(words: list[str]) -> str:
    """The async one for TMA and its fences; st.async, and cp.async that is not bulk, have the generic one."""
    is_async = words[:3] == ["fence", "proxy", "async"] or "bulk" in words
    return "async" if is_async else next((PROXIES[word] for word in words if word in PROXIES), "generic")


def _operands(text: str, shown: str) -> list[str]:
    if not text.strip():
        return []
    parts = [part.strip() for part in text.split(",")]
    if not all(_OPERAND.fullmatch(part) for part in parts):
        raise DescriptionError(f"litmus test: {shown!r}: operands are [variables], registers and numbers")
    return parts


# Of every instruction: how many variables and how many registers or constants it takes.
_SHAPES = {
    "st": (1, (1,)),
    "ld": (1, (0, 1)),
    "atom": (1, (2, 3)),
    "red": (1, (1,)),
    "fence": (0, (0,)),
    "bar": (0, (0, 1)),
    "barrier": (0, (0,)),
    "cp": (None, (0, 1)),
    "mbarrier": (1, (0, 1)),
    "griddepcontrol": (0, (0, 1)),
    "wgmma": (None, (0, 1)),
}


def _checked(statement: Statement, shown: str) -> Statement:
    if statement.what not in _SHAPES:
        raise DescriptionError(f"litmus test: {shown!r} is not one of {', '.join(_SHAPES)}")
    variables, values = _SHAPES[statement.what]
    if statement.what == "st" and "async" in statement.suffixes:
        variables = 2
    fits = variables is None or len(statement.variables) == variables
    if not fits or len(statement.values) not in values:
        raise DescriptionError(f"litmus test: {shown!r} has operands that {statement.what} does not take")
    if statement.what in ("atom", "red"):
        operation, given = (*statement.suffixes, "")[-2], len(statement.values) - (statement.what == "atom")
        if ATOMICS.get(operation) != given:
            raise DescriptionError(f"litmus test: {shown!r} is no {', '.join(ATOMICS)} of as many operands")
    needs_scope = statement.what in ("st", "ld", "atom", "red") and statement.order not in ("", "weak")
    if needs_scope and not statement.scope:
        raise DescriptionError(f"litmus test: {shown!r} has no scope; add one of {', '.join(SCOPES)}")
    return statement


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
