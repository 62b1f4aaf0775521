"""Lints all of our own GPU code, for each architecture, as PTX and as machine code; no GPU is needed.

    .venv/bin/python tests/support/lint_own_code.py [WORD ...]

prints what is wrong and what is unknown of each compilation whose name has one of the words, then the counts.
It takes some minutes; `tests/compile/test_own_code_passes_lint.py` does a part of it.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

from own_kernels import OWN, generated_kernels

from wavesim.lint.check import findings_of
from wavesim.lint.disassembler import disassembly
from wavesim.lint.ptx import listing_of_ptx
from wavesim.lint.sass import listing_of_sass


def judged(code, arch):
    """(kind of listing, findings) of the PTX and of the machine code of one compilation."""
    cubin = code.compiled(arch)
    sass = listing_of_sass(disassembly(cubin.data, code.path.name), code.path.name)
    return [
        (listing.language, findings_of(listing))
        for listing in (listing_of_ptx(cubin.ptx, code.path.name), sass)
    ]


def main(words):
    """Prints a line for each finding that is not right, and one for each compilation."""
    verdicts = Counter()
    with tempfile.TemporaryDirectory() as folder:
        codes = {**OWN, "generated kernels": generated_kernels(Path(folder))}
        chosen = {
            name: code for name, code in codes.items() if not words or any(word in name for word in words)
        }
        for name, code in chosen.items():
            for arch in code.archs:
                for language, findings in judged(code, arch):
                    counts = Counter(finding.verdict for finding in findings)
                    verdicts += counts
                    told = [
                        f"  {finding.verdict}: {finding.rule or finding.kind}: {finding.why}"
                        for finding in findings
                        if finding.verdict != "right"
                    ]
                    sys.stdout.write("\n".join([f"{name}, {arch}, {language}: {dict(counts)}", *told, ""]))
    sys.stdout.write(f"in all: {dict(verdicts)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
