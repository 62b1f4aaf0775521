"""Machine code, as nvdisasm writes it, as kernels: the same instructions that PTX becomes.

Example: `listing_of_sass(disassembly(cubin, "gemm.cubin"), "gemm.cubin").kernels[0]` is the first kernel.
Functions that it calls and that stand behind it are kernels of their own with `is_entry` False, and stand in
the place of the calls too. What is guarded by !PT is left out.
"""

import re
from collections.abc import Iterable

from wavesim.errors import RecordingError
from wavesim.lint.calls import with_calls_inlined
from wavesim.lint.instruction import Instruction, Op, SourceLine
from wavesim.lint.kernel_code import KernelCode, Listing
from wavesim.lint.sass_context import with_context
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
    """Line by line, without a second copy of all."""
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
            if found := _INSTRUCTION.match(line):
                self._instruction(found[2], number)
                if self.count >= MOST_INSTRUCTIONS:
                    self.notes.append(f"only the first {MOST_INSTRUCTIONS:,} instructions were read")
                    break
            elif line.endswith(":"):
                self.labels[line[:-1].strip()] = len(self.instructions)
            elif line.lstrip().startswith((".", "//")):
                self._directive(line)
        self._end()

    def _directive(self, line: str) -> None:
        if found := _SOURCE.match(line):
            self.source = SourceLine(found[1], int(found[2]))
        elif found := _SECTION.match(line):
            self._end()
            self._begin(found[1], self.attributes.get(found[1], self.usual))
        elif found := _ENTRY.match(line):
            self.entries.add(found[1])
        elif (found := _TYPE.match(line)) and found[1] != self.name and self.instructions:
            # A function that the kernel calls, in the same section: its parameters are the kernel's.
            self._end()
            self._begin(found[1], self.current)
        elif found := _ATTRIBUTES.match(line):
            self._attributes(*found.groups())

    def _attributes(self, base: str, threads: str, parameters: str, variables: str, name: str) -> None:
        sizes = [tuple(map(int, one.split(":"))) for one in parameters.split(",") if one.count(":") == 1]
        names = dict(one.split("=", 1) for one in variables.split(",") if "=" in one)
        self.attributes[name] = Attributes(
            int(base),
            [(start, size) for start, size in sizes],
            int(threads),
            {int(place): variable for place, variable in names.items() if place.isdigit()},
        )

    def _instruction(self, text: str, line: int) -> None:
        self.count += 1
        text = text.partition(";")[0].rstrip(" {}")
        found = instruction_of(text, line, self.current, self.source)
        if found is not None:
            self.instructions.append(found)

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
