"""PTX with random delays put in: before and behind what synchronises, and at stores that may come later.

Example: `with_delays(ptx)` is the same module with a table `wavesim_shake` in constant memory, which the host
fills before a run: the seed, the longest delay, and which sites are on. All off, it does what it did.

Nothing is put in that the PTX memory model does not allow of the program as it is, so that a program without
a fault has no other results:

- a warp sleeps, at its beginning and at barriers, fences, atomics, polls, posts and shared-memory stores;
- a thread keeps back one plain store to global memory until its next fence, release, barrier or exit, or its
  next access to the same 32 bytes: as a store that nothing orders may be performed later;
- a block reads its arrays at its beginning, into the L1, where a plain load may find them later unless an
  acquire or a fence comes between. Kernels with griddepcontrol.wait are left out.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from wavesim.lint.ptx import PtxStatement, statements
from wavesim_gpu.shake.ptx_snippets import (
    ALL_OF_BLOCK,
    ALWAYS,
    CHOICE,
    DELAY,
    EARLY,
    ENTRY,
    FLUSH,
    FLUSH_SAME,
    KEEP,
    LATE,
    MOST_BITS,
    MOST_SITES,
    ONE_THREAD,
    SAME,
    SITES_AT,
    TABLE,
    TABLE_WORDS,
)

_OPCODE = re.compile(r"(?:@\s*(!?)\s*([\w$%]+)\s+)?([\w.:]+)\s*")
_SYNCHRONISES = re.compile(
    r"(?:bar|barrier|griddepcontrol|fence|membar|atom|red|multimem)\."
    r"|mbarrier\.(?!init|inval)"
    r"|cp\.async\.(?:wait|bulk|mbarrier)"
    r"|(?:ld|st)\.(?:acquire|release|relaxed|volatile|mmio|async)"
)
_BLOCK_ORDER = re.compile(r"(?:bar|barrier)\.(?!cluster|warp)|(?:fence|membar)\.(?:\w+\.)?cta\b|mbarrier\.")
_ORDER = re.compile(
    r"(?:bar|barrier|mbarrier|fence|membar|cp|tex|tld4|suld|sust|sured|multimem|call|ret|exit|discard)\b"
    r"|griddepcontrol\.wait|(?:atom|red|st)\.(?:\w+\.)*(?:release|acq_rel)|(?:red|st)\.async"
)
_PASSES_ON = re.compile(
    r"(?:fence|membar)\.(?!(?:\w+\.)?cta\b)|call\b|tex|suld|cp\.|barrier\.cluster|mbarrier\.|multimem"
    r"|(?:atom|red|st)\.(?:\w+\.)*(?:release|acq_rel)"
)
_WIDE_FENCE = re.compile(r"(?:fence\.(?:acq_rel|sc)|membar)\.(?:gpu|gl|sys)")
_GLOBAL = re.compile(r"(?:ld|ldu|st|atom|red)\.(?!(?:\w+\.)*(?:shared|param|const|local)\b)")
_PLAIN_STORE = re.compile(r"st\.(?:weak\.)?global(?:\.(?:wb|cg|cs|wt))?(?:\.v([24]))?\.([busf])(16|32|64)$")
_SHARED_STORE = re.compile(r"st\.(?:weak\.)?shared(?:::\w+)?\.(?!\w*async)")
_ADDRESS = re.compile(r"\[\s*(%[\w$]+)\s*(?:\+\s*(-?\d+))?\s*\]")
_REGISTER = re.compile(r"\.reg\s+\.(\w+)\s+(%[A-Za-z_$]+)<\d+>")
_NAMED = re.compile(r"(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$%]+)")
_LOCATION = re.compile(r"\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"\n]*)"', re.MULTILINE)
_TARGET_END = re.compile(r"^\s*\.address_size\s+64[^\n]*$", re.MULTILINE)
_BRANCH = re.compile(r"bra(?:\.uni)?\s+([\w$%]+)|brx")
_OPERAND = re.compile(r"%[\w$]+")
_PARAMETER = re.compile(r"\[\s*([\w$]+(?:\s*\+\s*\d+)?)")
_POINTER_LOADS = ("ld.param.u64", "ld.param.b64")


Edit = tuple[int, int, str]  # a span of the text and what comes in its place


@dataclass(frozen=True)
class Site:
    """A place where a run may be disturbed: how, at which instruction of which kernel, on which line."""

    number: int
    kernel: str
    how: str
    text: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}, " if self.line else ""
        return f"{where}{self.kernel}: {self.how}{f' {self.text}' if self.text else ''}"


@dataclass(frozen=True)
class DelayedPtx:
    """The module's text and its sites; `notes` say what was left as it is."""

    text: str
    sites: tuple[Site, ...]
    notes: tuple[str, ...]


def with_delays(ptx: str) -> DelayedPtx:
    """The module with delays in all of its kernels; functions that were not inlined stay as they are."""
    files = dict(_FILE.findall(ptx))
    read = list(statements(ptx))
    edits: list[Edit] = []
    sites: list[Site] = []
    functions = 0
    for head, body in _functions(read):
        if re.search(r"\.entry\b", head.text) is None:
            functions += 1
            continue
        kernel = _Kernel(_name(head.text), body, files, sites)
        edits += kernel.edits()
    if (declared := _TARGET_END.search(ptx)) is not None:
        edits.append(
            (declared.end(), declared.end(), f"\n.visible .const .align 8 .b32 {TABLE}[{TABLE_WORDS}];\n")
        )
    notes = [f"{functions} device functions that were not inlined are not delayed"] if functions else []
    if len(sites) >= MOST_SITES:
        notes.append(f"only the first {MOST_SITES:,} places are delayed")
    return DelayedPtx(_edited(ptx, edits), tuple(sites), tuple(notes))


def _edited(text: str, edits: Sequence[Edit]) -> str:
    """The text with each string in place of the characters from its begin to its end."""
    parts, at = [], 0
    for begin, end, added in sorted(edits, key=lambda edit: edit[0]):
        parts += [text[at:begin], added]
        at = end
    return "".join([*parts, text[at:]])


def _functions(read: Sequence[PtxStatement]) -> Iterator[tuple[PtxStatement, list[PtxStatement]]]:
    head: PtxStatement | None = None
    body: list[PtxStatement] = []
    depth = 0
    for statement in read:
        if statement.kind == "head":
            head, depth, body = statement, 0, []
            continue
        depth += {"open": 1, "close": -1}.get(statement.kind, 0)
        if head is not None:
            body.append(statement)
            if depth == 0:
                yield head, body
                head = None


def _name(head: str) -> str:
    match = _NAMED.search(head)
    return match[1] if match else "kernel"


class _Kernel:
    """One kernel's statements and what is put between them."""

    def __init__(self, name: str, body: list[PtxStatement], files: dict[str, str], sites: list[Site]) -> None:
        self.name, self.body, self.files, self.sites = name, body, files, sites
        self.sizes = {
            name: int(kind[1:])
            for statement in body
            for kind, name in _REGISTER.findall(statement.text)
            if kind[1:].isdigit()
        }
        self.place = ("", 0)
        self.origins = self._origins()
        self.waits_for_grid = any("griddepcontrol.wait" in statement.text for statement in body)

    def _origins(self) -> dict[str, frozenset[str]]:
        """Of each register the pointers among the parameters that it comes from, as far as is seen."""
        origins: dict[str, frozenset[str]] = {}
        for statement in self.body:
            match = _OPCODE.match(statement.text)
            if statement.kind != "instruction" or match is None:
                continue
            target, *sources = _OPERAND.findall(statement.text[match.end() :]) or [""]
            if match[3] in _POINTER_LOADS:
                meant = frozenset(_PARAMETER.findall(statement.text))
            else:
                meant = frozenset().union(*(origins.get(source, frozenset()) for source in sources))
            origins[target] = origins.get(target, frozenset()) | meant
        return origins

    def _origin(self, text: str) -> frozenset[str]:
        address = _ADDRESS.search(text)
        return self.origins.get(address[1], frozenset()) if address else frozenset()

    def _may_cross(self, place: int) -> bool:
        """Whether a store kept back may be performed behind this barrier of the block.

        It may where no thread of the block can see it, or pass it on, behind the barrier: there is no access
        to memory of the same pointers, no fence or release beyond the block, and no way back.
        """
        labels = {entry.text: at for at, entry in enumerate(self.body) if entry.kind == "label"}
        stored: set[str] = set()
        for at, statement in enumerate(self.body):
            match = _OPCODE.match(statement.text) if statement.kind == "instruction" else None
            if match is None:
                continue
            opcode, origin = match[3], self._origin(statement.text)
            if at < place:
                stored |= origin if _PLAIN_STORE.match(opcode) else set()
                continue
            branch = _BRANCH.match(statement.text[match.start(3) :])
            if branch and (branch[1] is None or labels.get(branch[1], 0) < place):
                return False
            if _PASSES_ON.match(opcode) or (
                _GLOBAL.match(opcode) and (not origin or not origin.isdisjoint(stored))
            ):
                return False
        return True

    def edits(self) -> Iterator[Edit]:
        """What is put where in the module's text."""
        is_first = True
        for place, statement in enumerate(self.body):
            if statement.kind == "directive" and (match := _LOCATION.match(statement.text)):
                self.place = (PurePath(self.files.get(match[1], "")).name, int(match[2]))
            if statement.kind != "instruction":
                continue
            if is_first:
                yield statement.at, statement.at, self._entry()
                is_first = False
            yield from self._around(place, statement)

    def _around(self, place: int, statement: PtxStatement) -> Iterator[Edit]:
        match = _OPCODE.match(statement.text)
        if match is None:
            return
        opcode, begin, end = match[3], statement.at, statement.at + len(statement.text) + 1
        if opcode in ("ret", "exit"):
            yield begin, begin, LATE + FLUSH
        elif store := _PLAIN_STORE.match(opcode):
            yield begin, begin, self._flush_if_same(statement.text)
            if kept := self._kept_store(match, store, statement.text):
                yield begin, end, kept
        elif _ORDER.match(opcode) and not (_BLOCK_ORDER.match(opcode) and self._may_cross(place)):
            yield begin, begin, FLUSH
        elif _GLOBAL.match(opcode):
            yield begin, begin, self._flush_if_same(statement.text)
        if _SYNCHRONISES.match(opcode):
            yield begin, begin, self._delay("a delay before", statement.text)
            early = self._early_loads(f"behind {statement.text}") if _WIDE_FENCE.match(opcode) else ""
            yield end, end, self._delay("a delay behind", statement.text) + early
        elif _SHARED_STORE.match(opcode):
            yield begin, begin, self._delay("a delay before", statement.text)

    def _site(self, how: str, text: str) -> int | None:
        if len(self.sites) >= MOST_SITES:
            return None
        number = len(self.sites)
        shown = " ".join(text.split())[:80]
        self.sites.append(Site(number, self.name, how, shown, *self.place))
        return number

    def _entry(self) -> str:
        """The thread's number for the seed, the store kept back, and what happens at the beginning."""
        early = self._early_loads("at its beginning", is_entry=True)
        return ENTRY + early + self._delay("a delay at its beginning", "")

    def _early_loads(self, text: str, *, is_entry: bool = False) -> str:
        if self.waits_for_grid:
            return ""
        number = self._site("stale lines in the L1, its arrays having been read", text)
        if number is None:
            return ""
        choice = CHOICE.format(**_of_site(number))
        return EARLY.format(
            choice=choice, label=f"$ws_{number}", **(ALL_OF_BLOCK if is_entry else ONE_THREAD)
        )

    def _delay(self, how: str, text: str) -> str:
        number = self._site(how, text)
        return "" if number is None else DELAY.format(choice=CHOICE.format(**_of_site(number)))

    def _flush_if_same(self, text: str) -> str:
        address = _ADDRESS.search(text)
        if address is None or self.sizes.get(_stem(address[1]), 64) != 64:
            return FLUSH
        return SAME.format(base=address[1], offset=address[2] or 0) + FLUSH_SAME

    def _kept_store(self, match: re.Match[str], store: re.Match[str], text: str) -> str:
        """What comes before a plain store: perhaps it is kept back, and its own predicate is false then."""
        address = _ADDRESS.search(text)
        words, bits = int(store[1] or 1), int(store[3])
        values = [word.strip() for word in text.rpartition("]")[2].strip(" ,\n\t{}").split(",")]
        sizes = {self.sizes.get(_stem(value)) for value in values}
        is_half = sizes == {32} and bits == 16 and words == 1  # the lower half of a register is stored
        is_known = (sizes == {bits} or is_half) and len(values) == words and words * bits <= MOST_BITS
        if address is None or not is_known:
            return ""
        number = self._site("a store performed late,", text)
        if number is None:
            return ""
        sign, predicate = match[1], match[2]
        return KEEP.format(
            choice=CHOICE.format(**_of_site(number)),
            guard=f"{'not' if sign else 'mov'}.pred %wsr, {predicate};" if predicate else ALWAYS,
            base=address[1],
            offset=address[2] or 0,
            values=_packed(values, sizes.pop() or bits),
            width=words * bits // 8,
            instruction=text[match.start(3) :].strip(),
        )


def _stem(register: str) -> str:
    return register.rstrip("0123456789")


def _of_site(number: int) -> dict[str, int]:
    word, bit = divmod(number, 32)
    return {"at": 4 * (SITES_AT + word), "bit": 1 << bit, "salt": (number * 0x85EBCA77 + 1) & 0xFFFFFFFF}


def _packed(values: Sequence[str], bits: int) -> str:
    """Moves of the values into the words of the store kept back."""
    if bits == 64:
        return "\n".join(
            f"@%wsp mov.b64 {{%ws_w{2 * place}, %ws_w{2 * place + 1}}}, {value};"
            for place, value in enumerate(values)
        )
    if bits == 32:
        return "\n".join(f"@%wsp mov.b32 %ws_w{place}, {value};" for place, value in enumerate(values))
    if len(values) == 1:
        return f"@%wsp mov.b32 %ws_w0, {{{values[0]}, {values[0]}}};"
    pairs = zip(values[::2], values[1::2], strict=True)
    return "\n".join(
        f"@%wsp mov.b32 %ws_w{place}, {{{low}, {high}}};" for place, (low, high) in enumerate(pairs)
    )
