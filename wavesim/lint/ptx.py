"""PTX text as kernels: what NVRTC, nvcc, Triton and clang write, and versions of PTX to come.

Example: `listing_of_ptx(text, "gemm.ptx").kernels[0].instructions` are the first kernel's. An unknown opcode
is OTHER, and its registers are read all the same; an unknown directive is skipped: it ends with its line or
with a semicolon, whichever comes first. Source: PTX ISA 9.0, chapter 4 (syntax).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from wavesim.errors import RecordingError
from wavesim.lint.calls import with_calls_inlined
from wavesim.lint.instruction import KernelCode, Listing, SourceLine
from wavesim.lint.ptx_instructions import Context, instruction_of
from wavesim.lint.ptx_operands import NameScope
from wavesim.safe_io.escaping import one_line

Kind = Literal["head", "open", "close", "label", "directive", "instruction"]

# A pragma may stand between a function's head and its body, with a semicolon of its own.
_BLANK = re.compile(r'//[^\n]*|/\*.*?(?:\*/|\Z)|"[^"\n]*"|\.pragma\b[^;]*;|@@DWARF[^\n]*', re.DOTALL)
_NO_LINE = re.compile(r"[^\n]")
_SPACE = re.compile(r"[\s;]*")
_LABEL = re.compile(r"([\w$%]+)\s*:(?!:)")
_DIRECTIVE = re.compile(r"\.[\w$]*")
_KIND = re.compile(r"\.(entry|func)\b")
_HEAD = re.compile(r"(?:\.(?:visible|extern|weak|common|attribute\s*\([^)]*\))\s*)*\.(?:entry|func)\b")
_OF_A_LINE = frozenset((".loc", ".file", ".version", ".target", ".address_size"))
_VARIABLES = (
    ".reg",
    ".shared",
    ".global",
    ".const",
    ".local",
    ".param",
    ".tex",
    ".visible",
    ".extern",
    ".weak",
)
_LISTS = (
    ".common",
    ".branchtargets",
    ".calltargets",
    ".callprototype",
    ".alias",
    ".attribute",
    ".samplerref",
)


class PtxStatement(NamedTuple):
    """One statement, the line that it begins on, from 1, and the character, from 0.

    A head is all before a function's "{" or ";".
    """

    kind: Kind
    text: str
    line: int
    at: int = 0


def statements(text: str) -> Iterator[PtxStatement]:
    """All in their order, without comments and debug sections; one that is cut off at the end is dropped."""
    text = _BLANK.sub(_blanked, text)
    at, line, counted = 0, 1, 0
    while True:
        at = _space(text, at)
        if at >= len(text):
            return
        line, counted = line + text.count("\n", counted, at), at
        kind, end, resume = _statement(text, at)
        if end < 0:
            return
        if kind:
            yield PtxStatement(kind, text[at:end], line, at)
        at = resume


def _blanked(match: re.Match[str]) -> str:
    word = match[0]
    return word if word[0] == '"' else _NO_LINE.sub(" ", word)


def _space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _statement(text: str, at: int) -> tuple[Kind | None, int, int]:
    """Kind, end and where to go on; a kind of None is skipped, an end of -1 is cut off."""
    first = text[at]
    if first in "{}":
        return ("open" if first == "{" else "close"), at + 1, at + 1
    if first == ".":
        return _directive(text, at)
    if label := _LABEL.match(text, at):
        return "label", label.end(1), label.end()
    end = text.find(";", at)
    return "instruction", end, end + 1


def _directive(text: str, at: int) -> tuple[Kind | None, int, int]:
    if head := _HEAD.match(text, at):
        return _head(text, head.end())
    match = _DIRECTIVE.match(text, at)
    word = match[0] if match else ""
    if word == ".section":
        end = text.find("}", at)
        return None, end, end + 1
    line_end = text.find("\n", at)
    line_end = len(text) if line_end < 0 else line_end
    if word in _OF_A_LINE:
        return "directive", line_end, line_end
    semicolon = text.find(";", at)
    if word in (*_VARIABLES, *_LISTS):
        return "directive", semicolon, semicolon + 1
    end = line_end if semicolon < 0 else min(semicolon, line_end)
    return None, end, end


def _head(text: str, after: int) -> tuple[Kind | None, int, int]:
    body, declaration = text.find("{", after), text.find(";", after)
    if body < 0 or 0 <= declaration < body:
        return None, declaration, declaration + 1
    return "head", body, body


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

    def kernels(self, statements: Iterator[PtxStatement]) -> Iterator[KernelCode]:
        """Each function that has a body."""
        count = 0
        for statement in statements:
            if statement.kind == "head":
                kernel, read = self._function(statement, statements, MOST_STATEMENTS - count)
                count += read
                yield kernel
            if count >= MOST_STATEMENTS:
                self.notes.append(f"only the first {MOST_STATEMENTS:,} statements were read")
                return

    def _function(
        self, head: PtxStatement, statements: Iterator[PtxStatement], most: int
    ) -> tuple[KernelCode, int]:
        name, parameters = _signature(head.text)
        body = _Body(self.files)
        body.read(statements, most)
        if not body.is_closed:
            self.notes.append(f"{one_line(name)} is cut off after line {body.last_line}")
        numbers = {parameter: f"param {number}" for number, parameter in enumerate(parameters)}
        instructions = [
            instruction_of(statement.text, statement.line, Context(scope, numbers, body.tables, source))
            for statement, scope, source in body.instructions
        ]
        kind = _KIND.search(head.text)
        is_entry = kind is not None and kind[1] == "entry"
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

    def read(self, statements: Iterable[PtxStatement], most: int) -> None:
        """Up to the brace that closes the function, or `most` statements."""
        for statement in statements:
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
        match = _LOCATION.match(text)
        if not match or int(match[2][-9:]) == 0:  # line 0 is what no line of the source stands for
            return None
        number = int(match[1][-9:])
        return SourceLine(self.files.get(number, f"file {number}"), int(match[2][-9:]))


def _signature(head: str) -> tuple[str, dict[str, int]]:
    after = _KIND.split(head, maxsplit=1)[2].strip()
    match = _NAME.match(after)
    if not match:
        return after[:60], {}
    sizes: dict[str, int] = {}
    for number, parameter in enumerate((match[2] or "").split(",")):
        if read := _PARAMETER.search(parameter):
            width = int(read[1][1:]) // 8 if read[1][1:].isdigit() else 8
            sizes[read[2]] = max(width, 1) * int((read[3] or "1")[-9:])
        elif parameter.strip():
            sizes[f"parameter {number}"] = 0
    return match[1], sizes


def _threads(head: str) -> int:
    match = _THREADS.search(head)
    if not match:
        return 0
    x, y, z = (int(size) if size else 1 for size in match.groups())
    return x * y * z
