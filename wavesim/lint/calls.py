"""Device functions put in the place of their calls, so that a kernel's flow goes through them.

Example: a kernel calls `wait(flag)`, which nvcc did not inline. The loop in it becomes one of the kernel's,
the registers become "%r3~1", and what the kernel passes is a register too, "param0@2+0".

In machine code a function has the same registers as its caller: only labels and returns change.

What stays a call: functions that are not in the file, indirect calls, recursion.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from wavesim.lint.instruction import Address, Instruction, KernelCode, Op

MOST_INLINED = 100_000  # instructions of all calls of a module
MOST_DEEP = 8


def with_calls_inlined(kernels: Sequence[KernelCode], language: Literal["ptx", "sass"]) -> list[KernelCode]:
    """The kernels, with the functions of the file in them; the functions themselves as they are."""
    renaming = _Renaming if language == "ptx" else _Relabelling
    inliner = _Inliner({kernel.name: kernel for kernel in kernels if not kernel.is_entry}, renaming)
    return [inliner.expanded(kernel, ()) if kernel.is_entry else kernel for kernel in kernels]


class _Inliner:
    def __init__(self, functions: Mapping[str, KernelCode], renaming: "type[_Relabelling]") -> None:
        self._functions = functions
        self._renaming = renaming
        self._left = MOST_INLINED
        self._calls = 0

    def expanded(self, kernel: KernelCode, callers: tuple[str, ...]) -> KernelCode:
        """A kernel or function with its calls inlined."""
        called = {
            at: self._functions[instruction.target]
            for at, instruction in enumerate(kernel.instructions)
            if instruction.op is Op.CALL and self._is_inlined(instruction.target, callers)
        }
        if not called:
            return kernel
        arguments = frozenset(symbol for at in called for symbol in kernel.instructions[at].symbols)
        code: list[Instruction] = []
        labels: dict[str, int] = {}
        moved: list[int] = []
        for at, instruction in enumerate(kernel.instructions):
            moved.append(len(code))
            if at in called and len(called[at].instructions) <= self._left:
                self._put(called[at], instruction, callers, code, labels)
            else:
                code.append(_moved(instruction, arguments))
        moved.append(len(code))
        return replace(
            kernel,
            instructions=code,
            labels={**labels, **{name: moved[at] for name, at in kernel.labels.items()}},
        )

    def _is_inlined(self, name: str, callers: tuple[str, ...]) -> bool:
        return name in self._functions and name not in callers and len(callers) < MOST_DEEP

    def _put(
        self,
        function: KernelCode,
        call: Instruction,
        callers: tuple[str, ...],
        code: list[Instruction],
        labels: dict[str, int],
    ) -> None:
        body = self.expanded(function, (*callers, function.name))
        self._left -= len(body.instructions)
        self._calls += 1
        after = f"return~{self._calls}"
        if call.guard:
            negated = call.guard[1:] if call.guard[0] == "!" else f"!{call.guard}"
            code.append(
                Instruction(
                    call.text, Op.BRANCH, call.listing_line, uses=call.uses, guard=negated, target=after
                )
            )
        rename = self._renaming(body, call, self._calls, after)
        labels.update({rename.local(name): len(code) + at for name, at in body.labels.items()})
        code += map(rename.instruction, body.instructions)
        labels[after] = len(code)


class _Relabelling:
    """The labels of one call, and where it returns to."""

    def __init__(self, _body: KernelCode, _call: Instruction, number: int, after: str) -> None:
        self._number, self._after = number, after

    def local(self, name: str) -> str:
        """A name that no other call has."""
        return f"{name}~{self._number}"

    def instruction(self, instruction: Instruction) -> Instruction:
        """The function's instruction as one of the caller's."""
        if instruction.op is Op.RETURN:
            return replace(instruction, op=Op.BRANCH, target=self._after)
        if instruction.op is Op.BRANCH and instruction.target:
            return replace(instruction, target=",".join(map(self.local, instruction.target.split(","))))
        return instruction


class _Renaming(_Relabelling):
    """The names of one call: registers are its own too, and parameters are what the caller passed."""

    def __init__(self, body: KernelCode, call: Instruction, number: int, after: str) -> None:
        super().__init__(body, call, number, after)
        # What is never written is a special register, such as %tid.x.
        self._own = {name for instruction in body.instructions for name in instruction.defines}
        results = max(len(call.symbols) - len(body.parameters), 0)
        passed = call.symbols[results:]
        self._symbols = {f"param {at}": symbol for at, symbol in enumerate(passed)}
        returned = {
            instruction.address.base
            for instruction in body.instructions
            if instruction.op is Op.STORE and instruction.space == "param" and instruction.address
        }
        self._symbols |= {name: call.symbols[0] for name in returned if results and "@" not in name}
        self._arguments = frozenset(self._symbols.values())

    def _register(self, name: str) -> str:
        return self.local(name) if name in self._own else name

    def _symbol(self, name: str) -> str:
        return self._symbols.get(name) or (self.local(name) if "@" in name else name)

    def instruction(self, instruction: Instruction) -> Instruction:
        """The function's instruction as one of the caller's."""
        guard = instruction.guard.lstrip("!")
        address = instruction.address
        if address is not None:
            named = (
                self._register(address.base)
                if address.base in instruction.uses
                else self._symbol(address.base)
            )
            address = Address(named, address.offset)
        renamed = replace(
            super().instruction(instruction),
            defines=tuple(map(self._register, instruction.defines)),
            uses=tuple(map(self._register, instruction.uses)),
            scaled=tuple(map(self._register, instruction.scaled)),
            symbols=tuple(map(self._symbol, instruction.symbols)),
            guard=("!" if instruction.guard.startswith("!") else "") + self._register(guard) if guard else "",
            address=address,
        )
        return _moved(renamed, self._arguments)


def _moved(instruction: Instruction, arguments: frozenset[str]) -> Instruction:
    address = instruction.address
    if instruction.space != "param" or address is None or address.base not in arguments:
        return instruction
    is_store = instruction.op is Op.STORE
    values = [name for name in instruction.uses if name != instruction.guard.lstrip("!")]
    values = values if is_store else list(instruction.defines)
    width = instruction.bytes // max(len(values), 1)
    places = [f"{address.base}+{address.offset + slot * width}" for slot in range(len(values))]
    guard = [instruction.guard.lstrip("!")] if instruction.guard else []
    return replace(
        instruction,
        op=Op.MOVE,
        space="",
        order="",
        bytes=0,
        address=None,
        symbols=(),
        defines=tuple(places if is_store else values),
        uses=(*(values if is_store else places), *guard),
    )
