"""PTX text as kernels: what NVRTC, nvcc, Triton and clang write, and versions of PTX to come.

Example: `listing_of_ptx(text, "gemm.ptx").kernels[0].instructions` are the first kernel's. An opcode that is
not known is OTHER, and its registers are read all the same; a directive that is not known is skipped.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from wavesim.errors import RecordingError
from wavesim.lint.calls import with_calls_inlined
from wavesim.lint.instruction import SourceLine
from wavesim.lint.kernel_code import KernelCode, Listing
from wavesim.lint.ptx_instructions import Context, instruction_of
from wavesim.lint.ptx_names import NameScope
from wavesim.lint.ptx_statements import PtxStatement, statements
from wavesim.safe_io.escaping import one_line

# At these bounds, 10 to 20 s and 300 MB. The largest PTX of CUTLASS's and Triton's kernels has 3 MB.
MOST_CHARACTERS = 32_000_000
MOST_STATEMENTS = 300_000
MOST_DEPTH = 64  # of braces; compilers write three

_IS_PTX = re.compile(r"^\s*(?:\.version\b|(?:\.\w+\s+)*\.(?:entry|func)\b)", re.MULTILINE)
_TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.MULTILINE)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"\n]*)"', re.MULTILINE)
_LOCATION = re.compile(r"\.loc\s+(\d+)\s+(\d+)")
_NAME = re.compile(r"(?:\([^)]*\)\s*)?([\w$%]+)\s*(?:\(([^)]*)\))?")
_PARAMETER = re.compile(
    r"\.([busf]\d+|pred|texref|samplerref|surfref)\b[^,]*?([\w$%]+)\s*(?:\[\s*(\d*)\s*\])?\s*$"
)
_THREADS = re.compile(r"\.(?:req|max)ntid\s+(\d{1,9})(?:\s*,\s*(\d{1,9}))?(?:\s*,\s*(\d{1,9}))?")


def listing_of_ptx(text: str, where: str) -> Listing:
    """The kernels and device functions of a PTX module. `where` names it in findings and errors.

    What can't be read is left out and said in `notes`. Raises `RecordingError`: no PTX at all, or more than
    `MOST_CHARACTERS`.
    """
    if len(text) > MOST_CHARACTERS:
        raise RecordingError(
            f"{one_line(where)} has {len(text):,} characters of PTX; at most {MOST_CHARACTERS:,} are read:"
            " give fewer kernels in one file"
        )
    if not _IS_PTX.search(text):
        raise RecordingError(f"{one_line(where)} is not PTX: it has neither .version nor .entry nor .func")
    target = _TARGET.search(text)
    files = {int(number[-9:]): name for number, name in _FILE.findall(text)}
    reader = _Reader(files)
    kernels = with_calls_inlined(list(reader.kernels(statements(text))), "ptx")
    return Listing(where, "ptx", target[1] if target else "", kernels, tuple(reader.notes))


class _Reader:
    """Goes through the statements of one module and keeps what could not be read."""

    def __init__(self, files: Mapping[int, str]) -> None:
        self.files = files
        self.notes: list[str] = []

    def kernels(self, found: Iterator[PtxStatement]) -> Iterator[KernelCode]:
        """Each function that has a body."""
        count = 0
        for statement in found:
            if statement.kind == "head":
                kernel, read = self._function(statement, found, MOST_STATEMENTS - count)
                count += read
                yield kernel
            if count >= MOST_STATEMENTS:
                self.notes.append(f"only the first {MOST_STATEMENTS:,} statements were read")
                return

    def _function(
        self, head: PtxStatement, found: Iterator[PtxStatement], most: int
    ) -> tuple[KernelCode, int]:
        name, parameters = _signature(head.text)
        body = _Body(self.files)
        body.read(found, most)
        if not body.is_closed:
            self.notes.append(f"{one_line(name)} is cut off after line {body.last_line}")
        numbers = {parameter: f"param {number}" for number, parameter in enumerate(parameters)}
        instructions = [
            instruction_of(statement.text, statement.line, Context(scope, numbers, body.tables, source))
            for statement, scope, source in body.instructions
        ]
        is_entry = ".entry" in head.text.partition(name)[0]
        return KernelCode(
            name, instructions, body.labels, parameters, _threads(head.text), is_entry
        ), body.count


class _Body:
    """A function's statements, sorted: declarations into scopes, labels to the instruction after them."""

    def __init__(self, files: Mapping[int, str]) -> None:
        self.files = files
        self.instructions: list[tuple[PtxStatement, NameScope, SourceLine | None]] = []
        self.labels: dict[str, int] = {}
        self.tables: dict[str, tuple[str, ...]] = {}  # of .branchtargets, by label
        self.count = 0
        self.last_line = 0
        self.is_closed = False
        self._depth = self._scopes = 0
        self._scope = NameScope(0)
        self._label = ""
        self._source: SourceLine | None = None

    def read(self, found: Iterable[PtxStatement], most: int) -> None:
        """Up to the brace that closes the function, or `most` statements."""
        for statement in found:
            self.count += 1
            self.last_line = statement.line
            if statement.kind in ("open", "close"):
                self._brace(statement.kind == "open")
            elif statement.kind == "label":
                self._label = statement.text
                self._scope.labels.add(statement.text)
                self.labels[self._scope.name(statement.text)] = len(self.instructions)
            elif statement.kind == "directive":
                self._directive(statement.text)
            elif statement.kind == "instruction":
                self.instructions.append((statement, self._scope, self._source))
            if self.is_closed or self.count >= most or statement.kind == "head":
                return

    def _brace(self, is_open: bool) -> None:
        self._depth += 1 if is_open else -1
        self.is_closed = self._depth == 0
        # The first scope is the function's; deeper braces than any compiler writes share one.
        if is_open and 1 < self._depth <= MOST_DEPTH:
            self._scopes += 1
            self._scope = NameScope(self._scopes, self._scope)
        elif not is_open and 1 <= self._depth < MOST_DEPTH and self._scope.parent:
            self._scope = self._scope.parent

    def _directive(self, text: str) -> None:
        if text.startswith(".loc"):
            self._source = self._location(text)
        elif text.startswith(".branchtargets"):
            names = re.findall(r"[\w$%]+", text.removeprefix(".branchtargets"))
            self.tables[self._label] = tuple(self._scope.name(name) for name in names)
        else:
            self._scope.declare(text)

    def _location(self, text: str) -> SourceLine | None:
        found = _LOCATION.match(text)
        if not found or int(found[2][-9:]) == 0:  # line 0 is what no line of the source stands for
            return None
        number = int(found[1][-9:])
        return SourceLine(self.files.get(number, f"file {number}"), int(found[2][-9:]))


def _signature(head: str) -> tuple[str, dict[str, int]]:
    """The function's name and its parameters' sizes in bytes."""
    after = re.split(r"\.(?:entry|func)\b", head, maxsplit=1)[1].strip()
    found = _NAME.match(after)
    if not found:
        return after[:60], {}
    sizes: dict[str, int] = {}
    for number, parameter in enumerate((found[2] or "").split(",")):
        if read := _PARAMETER.search(parameter):
            width = int(read[1][1:]) // 8 if read[1][1:].isdigit() else 8
            sizes[read[2]] = max(width, 1) * int((read[3] or "1")[-9:])
        elif parameter.strip():
            sizes[f"parameter {number}"] = 0
    return found[1], sizes


def _threads(head: str) -> int:
    found = _THREADS.search(head)
    if not found:
        return 0
    x, y, z = (int(size) if size else 1 for size in found.groups())
    return x * y * z
