"""Where addresses come from: which kernel parameters flow into them, and whether two are the same.

Example: `ld.param.u64 %rd1, [k_param_1]; add.s64 %rd2, %rd1, %rd9; ld.global.u32 %r1, [%rd2]` has the root
"param 1", and so has a load from [%rd2+4], which is another address.
"""

import re
from functools import cached_property

from wavesim.lint.data_flow import DataFlow, Value, Values
from wavesim.lint.instruction import PARAMETERS, KernelCode, Op

POINTER_BYTES = 8
VECTOR_BYTES = 16  # the widest load until sm_90
_POINTERS = frozenset((Op.ADD, Op.MOVE))
# Where no pointer was found through these, what it was shifted, shuffled or packed by is followed too.
_LENIENT = frozenset((*_POINTERS, Op.OTHER))
_NUMBER = re.compile(r"param (\d+)")


class AddressRoots:
    """Answers about the addresses of one kernel's accesses."""

    def __init__(self, data: DataFlow, values: Values, kernel: KernelCode) -> None:
        self._data = data
        self._values = values
        self._sizes = list(kernel.parameters.values())
        self._offsets = kernel.offsets
        self._instructions = data.instructions
        self._roots: dict[int, frozenset[str]] = {}

    def roots(self, at: int) -> frozenset[str]:
        """Parameters ("param 0", "param 0+8" of a struct) and variables that the address is computed from."""
        if at not in self._roots:
            address = self._instructions[at].address
            roots: frozenset[str] = frozenset()
            if address is not None and address.base:
                if address.base in self._instructions[at].uses:
                    roots = self._walk(address.base, at, _POINTERS) or self._walk(address.base, at, _LENIENT)
                else:
                    roots = frozenset((self._named(address.base, address.offset),))
            self._roots[at] = roots
        return self._roots[at]

    def _walk(self, register: str, at: int, followed: frozenset[Op]) -> frozenset[str]:
        roots: set[str] = set()
        seen: set[tuple[int, str]] = set()
        work = [(definition, register) for definition in self._data.definitions(register, at)]
        while work:
            place = work.pop()
            if place in seen:
                continue
            seen.add(place)
            self._data.effort.spend(1)
            names, sources = self._from(*place, followed)
            roots |= names
            work += [
                (before, used) for source, used in sources for before in self._data.definitions(used, source)
            ]
        return frozenset(roots)

    def _from(
        self, at: int, register: str, followed: frozenset[Op]
    ) -> tuple[frozenset[str], list[tuple[int, str]]]:
        """What `register` gets from instruction `at`: roots, and registers with where they are read."""
        instruction = self._instructions[at]
        value = self._values.of_definition(at, register)
        if symbol := self._values.symbol(value):
            return frozenset((self._named(symbol, value.offset),)), []
        if instruction.symbols == (PARAMETERS,):  # and which one is not known
            return frozenset(), []
        if instruction.op is Op.LOAD and instruction.space in ("param", "const"):
            return self._parameter(at, register, followed), []
        if instruction.op is Op.LOAD:
            stores = self._stored.get(self._place(at)) or self._stored_in_array(at)
            return frozenset(), [
                (store, used)
                for store in stores
                for used in self._instructions[store].uses
                if used != self._base(store)
            ]
        if instruction.op not in followed:
            return frozenset(), []
        left_out = {*instruction.scaled, instruction.guard.lstrip("!")}
        names = frozenset(symbol for symbol in instruction.symbols if self._may_be_pointer(symbol))
        return names, [(at, used) for used in instruction.uses if used not in left_out]

    @cached_property
    def _stored(self) -> dict[Value | None, list[int]]:
        """The stores to each place of the thread's or block's own memory, such as a struct of pointers."""
        stores: dict[Value | None, list[int]] = {}
        for at, instruction in enumerate(self._instructions):
            if instruction.op is Op.STORE and (place := self._place(at)):
                stores.setdefault(place, []).append(at)
        return stores

    def _stored_in_array(self, at: int) -> list[int]:
        base = self._base(at)
        if self._instructions[at].space != "local" or base not in self._instructions[at].uses:
            return []
        made_by = [i for i in self._data.definitions(base, at) if i >= 0 and self._adds_index(i)]
        parts = {self._values.of(used, i).number for i in made_by for used in self._instructions[i].uses}
        return [
            i for place, stores in self._stored.items() if place and place.number in parts for i in stores
        ]

    def _adds_index(self, at: int) -> bool:
        # What is subtracted is the window of local memory: a pointer to a struct of the caller's.
        return self._instructions[at].op is Op.ADD and "-" not in self._instructions[at].text

    def shared_stores(self, at: int) -> list[int]:
        """The stores to what a load of shared memory reads, where the addresses are the same value."""
        return self._shared.get(self._values.of_address(at), [])

    @cached_property
    def _shared(self) -> dict[Value | None, list[int]]:
        stores: dict[Value | None, list[int]] = {}
        for at, instruction in enumerate(self._instructions):
            if instruction.op is Op.STORE and instruction.space == "shared":
                stores.setdefault(self._values.of_address(at), []).append(at)
        stores.pop(None, None)
        return stores

    def _place(self, at: int) -> Value | None:
        value = self._values.of_address(at)
        is_own = value is not None and (self._values.symbol(value) or self._instructions[at].space == "local")
        return value if is_own else None

    def _base(self, at: int) -> str:
        address = self._instructions[at].address
        return address.base if address else ""

    def _parameter(self, at: int, register: str, followed: frozenset[Op]) -> frozenset[str]:
        """The parameter that a load of parameter space reads, where it is large enough for a pointer."""
        instruction = self._instructions[at]
        if instruction.address is None:  # machine code names the parameter, not an address
            return frozenset(symbol for symbol in instruction.symbols if self._may_be_pointer(symbol))
        address = self._values.of_address(at)
        count = max(len(instruction.defines), 1)
        if address is None or (
            instruction.text.startswith("ld") and instruction.bytes // count < POINTER_BYTES
        ):
            return frozenset()
        if symbol := self._values.symbol(address):
            slot = instruction.defines.index(register)
            name = self._named(symbol, address.offset + slot * (instruction.bytes // count))
            return frozenset((name,)) if self._may_be_pointer(name) else frozenset()
        base = instruction.address.base
        return self._walk(base, at, followed) if base in instruction.uses else frozenset()

    def _may_be_pointer(self, symbol: str) -> bool:
        match = _NUMBER.match(symbol)
        if not match or int(match[1]) >= len(self._sizes):
            return not symbol.startswith("retval")
        return self._sizes[int(match[1])] >= POINTER_BYTES

    def _named(self, symbol: str, offset: int) -> str:
        if symbol == PARAMETERS:
            number = max((n for n, start in enumerate(self._offsets) if start <= offset), default=0)
            return self._named(f"param {number}", offset - self._offsets[number] if self._offsets else offset)
        return f"{symbol}+{offset}" if symbol.startswith("param ") and offset else symbol

    def are_beside(self, first: int, second: int) -> bool:
        """Whether two accesses are to parts of one vector: the same address but for `VECTOR_BYTES`."""
        a, b = self._values.of_address(first), self._values.of_address(second)
        if a is None or b is None or a.number != b.number:
            return False
        return a.offset // VECTOR_BYTES == b.offset // VECTOR_BYTES

    def are_same(self, place: int, other: int) -> bool | None:
        """Whether two accesses touch a common byte (in one round of a loop); None where that isn't known."""
        a, b = self._values.of_address(place), self._values.of_address(other)
        if a is None or b is None:
            return None
        first, second = self._instructions[place], self._instructions[other]
        if a.number == b.number:
            low, high, width = (a, b, first.bytes) if a.offset <= b.offset else (b, a, second.bytes)
            return high.offset - low.offset < max(width, 1)
        spaces = {first.space, second.space}
        if len(spaces) == 2 and not spaces & {"generic", "", "shared::cluster"}:
            return False
        variables = self.roots(place), self.roots(other)
        is_apart = all(roots and not any(_NUMBER.match(root) for root in roots) for roots in variables)
        return False if is_apart and not variables[0] & variables[1] else None
