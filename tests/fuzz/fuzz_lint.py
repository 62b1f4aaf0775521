"""Compiled kernels: cubins, fat binaries, disassemblies and PTX, damaged and hostile; `wavesim lint FILE`."""

import random
from pathlib import Path

from harness import Target
from judging import require, require_plain
from mutations import HOSTILE_TEXTS, with_bytes_changed

from wavesim.lint.check import findings_of
from wavesim.lint.files import listings_of
from wavesim.lint.report import LintReport, findings_text

LINES = (
    *("BRA `(.L_x_0) ;", "LDG.E.STRONG.GPU R0, [R2.64] ;", "CCTL.IVALL ;", "DEPBAR.LE SB0, 0x0 ;", "RET ;"),
    *("UTMACMDFLUSH ;", "MEMBAR.SC.SYS ;", "@P0 EXIT ;", "HGMMA.64x999x16 R0, R255 ;", "R9999.64 ;"),
    *("bra.uni $L0;", "ld.acquire.gpu.u32 %r1, [%rd1];", "{", "}", ".entry k(", ".branchtargets a, b;"),
)


def made(chance: random.Random, data: bytes) -> bytes:
    """Bytes changed; of text also lines lost, doubled, moved and invented."""
    if b"\0" in data or chance.random() < 0.3:
        return with_bytes_changed(chance, data)
    lines = data.decode(errors="replace").split("\n")
    for _ in range(chance.choice([1, 3, 10, 100])):
        place, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        match chance.randrange(5):
            case 0:
                lines[place], lines[other] = lines[other], lines[place]
            case 1:
                lines.insert(place, lines[other])
            case 2 if len(lines) > 2:
                del lines[place]
            case 3:
                lines[place] = lines[place].replace("consume", chance.choice(HOSTILE_TEXTS))
            case _:
                lines.insert(place, f"        /*{16 * place:04x}*/  {chance.choice(LINES)}")
    return "\n".join(lines).encode(errors="replace")


def call(path: Path) -> bool:
    """Each kernel has at least one finding, and the report is plain text."""
    listings = listings_of(path)
    findings = [finding for listing in listings for finding in findings_of(listing)]
    for listing in listings:
        for kernel in listing.kernels:
            named = not kernel.is_entry or any(finding.kernel == kernel.name for finding in findings)
            require(named, f"nothing is said of {kernel.name[:60]!r}")
    require_plain(findings_text(LintReport("x", listings, findings, 0.0)))
    return any(listing.kernels for listing in listings)


TARGET = Target(made, call, needs=("nvidia",))
