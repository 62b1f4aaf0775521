"""Single instructions of PTX, compiled by NVRTC into a kernel each, and the machine code that they become.

Example: the row "ld.acquire.gpu.global.u32 r, [p]" becomes a kernel with that instruction as inline assembly;
`p` is a pointer to global memory, `s` an address of shared memory, `n` a 32-bit number, `r` the result, which
is stored.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wavesim.lint.disassembler import disassembly
from wavesim.lint.instruction import Op
from wavesim.lint.ptx import listing_of_ptx
from wavesim.lint.sass import listing_of_sass

PAGE = Path(__file__).parents[2] / "docs" / "machine-code.md"
ARCHITECTURES = ("sm_80", "sm_90a", "sm_100a", "sm_120a")
_ROW = re.compile(r"^\| `([^|]+)` \| ([^|]*) \| ([^|]*) \|$", re.MULTILINE)
_WORDS = {"r": "%0", "w": "%1", "p": "%2", "s": "%3", "n": "%4", "h": "%5"}
# Of machine code what orders or synchronises; other instructions only bring operands.
_PLAIN = frozenset(
    (
        Op.ADD,
        Op.COMPARE,
        Op.MOVE,
        Op.OTHER,
        Op.BRANCH,
        Op.EXIT,
        Op.RETURN,
        Op.CALL,
        Op.CLOCK,
        Op.SLEEP,
        Op.TRAP,
    )
)


@dataclass(frozen=True)
class Row:
    """A line of a table of the page: `is_lost` in the second one, of what goes away."""

    ptx: str
    machine_code: tuple[str, ...]
    since: int
    is_only: bool
    is_lost: bool

    def runs_on(self, arch):
        """Whether this architecture has it."""
        number = int(re.search(r"\d+", arch)[0])
        return number == self.since if self.is_only else number >= self.since


@cache
def rows():
    """All rows of the page's tables."""
    kept, _, lost = PAGE.read_text().partition("\n## What goes away")
    return [
        Row(
            ptx,
            tuple(re.findall(r"`([^`]+)`", sass)),
            int(re.search(r"\d+", since)[0]),
            "only" in since,
            is_lost,
        )
        for text, is_lost in ((kept, False), (lost, True))
        for ptx, sass, since in _ROW.findall(text)
    ]


def source(lines):
    """A kernel for each line of PTX."""
    kernels = []
    for number, line in enumerate(lines):
        text = re.sub(r"\b([rwpsnh])\b(?!:)", lambda word: _WORDS[word[1]], line.replace("%", "%%"))
        text = f"{{ .reg .pred t; .reg .b32 u; {text}; }}"
        kernels.append(
            f'extern "C" __global__ void probe{number}(unsigned* p, unsigned* q, unsigned n) {{\n'
            "  extern __shared__ unsigned long long shared[];\n"
            "  unsigned s = (unsigned)__cvta_generic_to_shared(shared), r = 0; unsigned long long w = 0;\n"
            f'  asm volatile("{text}" : "+r"(r), "+l"(w)'
            ' : "l"(p), "r"(s), "r"(n), "h"((short)3) : "memory");\n'
            + ("  q[0] = r;\n" if re.search(r"\br\b", line) else "")
            + ("  q[1] = (unsigned)w; q[2] = (unsigned)(w >> 32);\n" if re.search(r"\bw\b", line) else "")
            + "}\n"
        )
    return "".join(kernels)


def compiled(lines, arch):
    """The kernels of PTX and of machine code, one a line: two lists of KernelCode."""
    from wavesim_gpu.driver.compiler import compile_text

    cubin = compile_text(Path("probes.cu"), source(lines), (), (f"--gpu-architecture={arch}",))
    ptx = {kernel.name: kernel for kernel in listing_of_ptx(cubin.ptx, "probes").kernels}
    sass = {
        kernel.name: kernel for kernel in listing_of_sass(disassembly(cubin.data, "probes"), "probes").kernels
    }
    names = [f"probe{number}" for number in range(len(lines))]
    return [ptx[name] for name in names], [sass[name] for name in names]


@cache
def table(arch):
    """Row, PTX and machine code of each row that runs on this architecture."""
    chosen = [row for row in rows() if row.runs_on(arch)]
    return list(zip(chosen, *compiled([row.ptx for row in chosen], arch), strict=True))


def ordering(kernel):
    """The instructions that order or synchronise, without those that the probe itself needs."""
    return [instruction for instruction in kernel.instructions if not _is_plain(instruction)]


def _is_plain(instruction):
    if instruction.text.startswith("CALL"):  # sm_120 calls the driver for copies to another block
        return True
    is_weak = instruction.op is Op.STORE and instruction.order == "weak" and instruction.space != "shared"
    is_nothing = instruction.text == "NOP"  # also where lint takes it for a warp's barrier
    return is_nothing or instruction.op in _PLAIN or instruction.space in ("param", "const") or is_weak
