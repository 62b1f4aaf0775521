"""Lints all of our own GPU code, for each architecture, as PTX and as machine code; no GPU is needed.

    .venv/bin/python tests/support/lint_own_code.py [WORD ...]

prints what is wrong and what is unknown of each compilation whose name has one of the words, then the counts.
It exits with 1 if anything is wrong that `deliberate_findings.toml` does not list, or is not that it lists.
It takes some minutes; `tests/compile/test_own_code_passes_lint.py` does a part of it.
"""

import sys
import tempfile
import tomllib
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


def deliberate():
    """The (name of a compilation, rule) pairs that are listed with a reason."""
    listed = tomllib.loads(Path(__file__).with_name("deliberate_findings.toml").read_text())["finding"]
    assert all(entry["reason"] for entry in listed)
    return {(entry["code"], entry["rule"]) for entry in listed}


def wrong_of(name, findings):
    """What is wrong and not meant to be."""
    meant = deliberate()
    return [
        finding for finding in findings if finding.verdict == "wrong" and (name, finding.rule) not in meant
    ]


def main(words):
    """Prints a line for each finding that is not right, and one for each compilation."""
    verdicts, met, faults = Counter(), set(), 0
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
                    faults += len(wrong_of(name, findings))
                    met |= {(name, finding.rule) for finding in findings if finding.verdict == "wrong"}
                    told = [
                        f"  {finding.verdict}: {finding.rule or finding.kind}: {finding.why}"
                        for finding in findings
                        if finding.verdict != "right"
                    ]
                    sys.stdout.write("\n".join([f"{name}, {arch}, {language}: {dict(counts)}", *told, ""]))
    unmet = {entry for entry in deliberate() if entry[0] in chosen} - met
    sys.stdout.write(
        f"in all: {dict(verdicts)}; wrong and not deliberate: {faults}; listed and not met: {unmet}\n"
    )
    return int(faults > 0 or bool(unmet))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
