"""Machine code, as nvdisasm writes it, as kernels: the same instructions that PTX becomes.

Example: `listing_of_sass(disassembly(cubin, "gemm.cubin"), "gemm.cubin").kernels[0]` is the first kernel.
Functions that it calls and that follow it are kernels of their own with `is_entry` False, and also replace
the calls. An instruction guarded by !PT is left out. Some instructions mean something only together with
their neighbours: `cp.async.bulk.wait_group 0` and its `.read` form both become `DEPBAR.LE SB0, 0x0`, and
CCTL.IVALL follows only the first. `cp.async.wait_group 0` becomes the same DEPBAR, after an LDGDEPBAR and not
after a UTMACMDFLUSH. A strong load right before a CCTL.IVALL is an acquire. A NOP is a __syncwarp() of a
converged warp, unless a matrix instruction comes next.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from wavesim.errors import RecordingError
from wavesim.lint.calls import with_calls_inlined
from wavesim.lint.instruction import Instruction, KernelCode, Listing, Op, SourceLine
from wavesim.lint.sass_instructions import NEWER_BASE, PARAMETER_BASES, Attributes, instruction_of
from wavesim.safe_io.escaping import one_line

# At this bound all rules take 30 s and 400 MB. The largest kernels of CUTLASS have 20,000.
MOST_INSTRUCTIONS = 120_000
MOST_CHARACTERS = 200 << 20
MOST_LETTERS = 4_000  # of a line, of a name: what is longer is cut off
MOST_VARIABLES = 1 << 18  # letters of the line that names a file's variables

# Cubins of CUDA 12, which Triton's compiler writes, name their architecture among the header's flags only.
_ARCH = re.compile(r"^\s*(?:\.target\s+sm_|\.headerflags[^\n]*?\bEF_CUDA_SM)(\d\w{1,5})", re.MULTILINE)
_SECTION = re.compile(r"\s*\.section\s+\.text\.(.*?)\s*,\s*\"")
_TYPE = re.compile(r"\s*\.type\s+(.*?),@function")
_ENTRY = re.compile(r"\s*\.other\s+(.*?),@\"STO_CUDA_ENTRY")
_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,12}\*/\s*([{}]?\s*)([@A-Z].*)")
_SOURCE = re.compile(r'\s*//## File "([^"]*)", line (\d{1,9})')
_ATTRIBUTES = re.compile(r"//# base (\d+) threads (\d+) parameters ([\d:,]*) variables (\S*) of (.*)")


def listing_of_sass(text: str, where: str) -> Listing:
    """The kernels of a disassembly, with the attributes that `disassembly` puts before each where they are.

    `where` names it in findings and errors. Raises `RecordingError`: no disassembly, or more than
    `MOST_CHARACTERS`.
    """
    if len(text) > MOST_CHARACTERS:
        raise RecordingError(
            f"{one_line(where)} has {len(text):,} characters of machine code; at most {MOST_CHARACTERS:,} are"
            " read: name the kernels that matter"
        )
    arch = _ARCH.search(text, 0, 1_000_000)
    if not arch:
        raise RecordingError(f"{one_line(where)} is no disassembly: it names no architecture")
    reader = _Reader(f"sm_{arch[1]}")
    reader.read(_lines(text))
    kernels = with_calls_inlined(reader.kernels, "sass")
    return Listing(where, "sass", f"sm_{arch[1]}", kernels, tuple(reader.notes))


def _lines(text: str) -> Iterable[str]:
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        most = MOST_VARIABLES if text.startswith("//# base", start) else MOST_LETTERS
        yield text[start : min(end, start + most)]
        start = end + 1


class _Reader:
    """Goes through the lines and ends a function where the next one begins."""

    def __init__(self, arch: str) -> None:
        number = int("".join(filter(str.isdigit, arch)) or "0")
        self.usual = Attributes(PARAMETER_BASES.get(number, NEWER_BASE))
        self.attributes: dict[str, Attributes] = {}
        self.entries: set[str] = set()
        self.kernels: list[KernelCode] = []
        self.notes: list[str] = []
        self.count = 0
        self.source: SourceLine | None = None
        self._begin("", self.usual)

    def read(self, lines: Iterable[str]) -> None:
        """All lines, or `MOST_INSTRUCTIONS`."""
        for number, line in enumerate(lines, 1):
            if match := _INSTRUCTION.match(line):
                self._instruction(match[2], number)
                if self.count >= MOST_INSTRUCTIONS:
                    self.notes.append(f"only the first {MOST_INSTRUCTIONS:,} instructions were read")
                    break
            elif line.endswith(":"):
                self.labels[line[:-1].strip()] = len(self.instructions)
            elif line.lstrip().startswith((".", "//")):
                self._directive(line)
        self._end()

    def _directive(self, line: str) -> None:
        if match := _SOURCE.match(line):
            self.source = SourceLine(match[1], int(match[2]))
        elif match := _SECTION.match(line):
            self._end()
            self._begin(match[1], self.attributes.get(match[1], self.usual))
        elif match := _ENTRY.match(line):
            self.entries.add(match[1])
        elif (match := _TYPE.match(line)) and match[1] != self.name and self.instructions:
            # A function that the kernel calls, in the same section: its parameters are the kernel's.
            self._end()
            self._begin(match[1], self.current)
        elif match := _ATTRIBUTES.match(line):
            self._attributes(*match.groups())

    def _attributes(self, base: str, threads: str, parameters: str, variables: str, name: str) -> None:
        sizes = [tuple(map(int, pair.split(":"))) for pair in parameters.split(",") if pair.count(":") == 1]
        names = dict(pair.split("=", 1) for pair in variables.split(",") if "=" in pair)
        self.attributes[name] = Attributes(
            int(base),
            [(start, size) for start, size in sizes],
            int(threads),
            {int(place): variable for place, variable in names.items() if place.isdigit()},
        )

    def _instruction(self, text: str, line: int) -> None:
        self.count += 1
        text = text.partition(";")[0].rstrip(" {}")
        instruction = instruction_of(text, line, self.current, self.source)
        if instruction is not None:
            self.instructions.append(instruction)

    def _begin(self, name: str, attributes: Attributes) -> None:
        self.name = name
        self.current = attributes
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.source = None

    def _drop_padding(self) -> None:
        # What ends a kernel is followed by a branch to itself and by NOPs, which nothing reaches.
        while self.instructions and self.instructions[-1].text == "NOP":
            del self.instructions[-1]
        last = self.instructions[-1] if self.instructions else None
        is_plain = last is not None and last.op is Op.BRANCH and not last.guard
        if is_plain and last and self.labels.get(last.target) == len(self.instructions) - 1:
            del self.instructions[-1]

    def _end(self) -> None:
        self._drop_padding()
        if not self.instructions:
            return
        # A label behind the last instruction is its end.
        labels = {label: min(at, len(self.instructions)) for label, at in self.labels.items()}
        sizes = {f"param {number}": size for number, (_, size) in enumerate(self.current.parameters)}
        is_entry = self.name in self.entries
        self.kernels.append(
            KernelCode(
                one_line(self.name, MOST_LETTERS),
                with_context(self.instructions),
                labels,
                sizes if is_entry else {},
                self.current.threads if is_entry else 0,
                is_entry,
                [start for start, _ in self.current.parameters] if is_entry else (),
            )
        )


_WAIT = re.compile(r"DEPBAR\.LE SB0, (0x[0-9a-f]{1,4})")
_MATRIX = re.compile(r"\b[A-Z]+MMA\b")
_PHASE = re.compile(r"LOP3\.LUT U?P\d, RZ, \w+, 0x80000000,")
_PHASE_REACH = 12  # instructions in which the load of an mbarrier's phase is followed by its test
_REACH = 40  # instructions in which the CCTL.IVALL of an acquire or of a wait is looked for
_CALL_REACH = 200  # instructions in which a call's address is looked for
# sm_120 has no clusters in hardware: a copy to another block's shared memory is a function of the driver.
_BULK_SYSCALL = "__cuda_syscall_cp_async_bulk"
_TOUCHING = frozenset(
    (Op.LOAD, Op.STORE, Op.ATOMIC, Op.REDUCTION, Op.FENCE, Op.BARRIER, Op.BRANCH, Op.CALL, Op.EXIT, Op.RETURN)
)


def with_context(instructions: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """The instructions of one function, with what their neighbours say of them."""
    commits = [
        (place, i.op) for place, i in enumerate(instructions) if i.op in (Op.ASYNC_COMMIT, Op.BULK_COMMIT)
    ]
    changed = list(instructions)
    for place, instruction in enumerate(instructions):
        if instruction.op is Op.CALL and not instruction.target:
            changed[place] = _named(instructions, place)
    for place, instruction in enumerate(instructions):
        if _acquires(instructions, place):
            changed[place] = replace(instruction, order="acquire")
        elif instruction.op is Op.OTHER and (match := _WAIT.search(instruction.text)):
            op = _waited_for(commits, place)
            if op is None:
                continue
            if op is Op.BULK_WAIT and not _is_followed_by_invalidate(instructions, place):
                op = Op.BULK_WAIT_READ
            changed[place] = replace(instruction, op=op, count=int(match[1], 16))
        elif (
            instruction.op is Op.PROXY_FENCE
            and instruction.space == "shared"
            and _is_wide(instructions, place)
        ):
            changed[place] = replace(instruction, space="")
        elif _means_nothing(instructions, place):
            changed[place] = replace(instruction, op=Op.OTHER)
    return tuple(_with_phase_tests(changed))


def _with_phase_tests(instructions: Sequence[Instruction]) -> Sequence[Instruction]:
    if not any(i.op is Op.ASYNC_ARRIVE or "ATOMS.ARRIVE" in i.text for i in instructions):
        return instructions
    return [
        replace(instruction, op=Op.MBARRIER_TEST, order="acquire", scope="cta")
        if _tests_phase(instructions, place)
        else instruction
        for place, instruction in enumerate(instructions)
    ]


def _tests_phase(instructions: Sequence[Instruction], place: int) -> bool:
    load, following = instructions[place], instructions[place + 1 : place + _PHASE_REACH]
    if load.op is not Op.LOAD or load.space != "shared" or load.bytes != 4:
        return False
    reader = next((later for later in following if set(load.defines) & set(later.uses)), None)
    return reader is not None and bool(_PHASE.search(reader.text))


def _means_nothing(instructions: Sequence[Instruction], place: int) -> bool:
    """Whether it closes no group, being part of fence.proxy.tensormap, or is a NOP before a product."""
    instruction, around = instructions[place], instructions[max(0, place - 1) : place + 2]
    if instruction.op is Op.BULK_COMMIT:
        return place > 0 and "UTMACCTL.IV" in around[0].text
    return instruction.text == "NOP" and bool(_MATRIX.search(around[-1].text))


def _named(instructions: Sequence[Instruction], place: int) -> Instruction:
    """A call by address, whose function is the symbol that was loaded into its registers."""
    call = instructions[place]
    for instruction in reversed(instructions[max(0, place - _CALL_REACH) : place]):
        if set(instruction.defines) & set(call.uses):
            name = instruction.symbols[0] if instruction.symbols else ""
            is_copy = name.startswith(_BULK_SYSCALL)
            return replace(
                call, target=name, op=Op.BULK_LOAD if is_copy else Op.CALL, space="global" if is_copy else ""
            )
    return call


def _waited_for(commits: Sequence[tuple[int, Op]], place: int) -> Op | None:
    """By the nearest commit before, or after where there is none: a loop may begin with its wait."""
    before = [op for at, op in commits if at < place][-1:] or [op for _, op in commits][:1]
    if not before:
        return None
    return Op.ASYNC_WAIT if before[0] is Op.ASYNC_COMMIT else Op.BULK_WAIT


def _acquires(instructions: Sequence[Instruction], place: int) -> bool:
    """A strong load or atomic whose CCTL.IVALL comes before any other access: an acquire of the source."""
    instruction = instructions[place]
    is_strong = instruction.op in (Op.LOAD, Op.ATOMIC) and instruction.order == "relaxed"
    is_shared = instruction.space in ("global", "generic") and instruction.scope in ("gpu", "sys")
    return is_strong and is_shared and _is_followed_by_invalidate(instructions, place)


def _is_followed_by_invalidate(instructions: Sequence[Instruction], place: int) -> bool:
    for instruction in instructions[place + 1 : place + _REACH]:
        if instruction.op is Op.INVALIDATE:
            return True
        if instruction.op in _TOUCHING and instruction.space not in ("param", "const"):
            return False
    return False


def _is_wide(instructions: Sequence[Instruction], place: int) -> bool:
    """fence.proxy.async of all spaces: MEMBAR.ALL.GPU before; of shared memory alone: MEMBAR.ALL.CTA."""
    before = next((i for i in reversed(instructions[max(0, place - 4) : place]) if i.op is Op.FENCE), None)
    return before is not None and before.scope in ("gpu", "sys")
