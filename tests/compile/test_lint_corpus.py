"""What is packed is what the templates compile to: a template that was changed has to be packed again."""

import pytest
from lint_cases import cases
from lint_corpus import from_nvrtc, trimmed_ptx, trimmed_sass

from wavesim.lint.disassembler import disassembly

# One case of every other template, each time another form or fault.
TEMPLATES = sorted({case.template for case in cases() if "/" not in case.template})
OF = {name: [case for case in cases() if case.template == name] for name in TEMPLATES}
SAMPLE = [OF[name][at % len(OF[name])] for at, name in enumerate(TEMPLATES)][::2]
VERSION = (13, 0)  # of the compiler that made what is packed


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_a_template_compiles_to_what_is_packed(nvrtc, case):
    from cuda.bindings import nvrtc as library

    if library.nvrtcVersion()[1:] != VERSION:
        pytest.skip(f"the corpus was compiled by NVRTC {VERSION[0]}.{VERSION[1]}")
    arch = case.archs[0]
    ptx, cubin = from_nvrtc(case, arch)
    packed = "tests/support/lint_corpus.py packs the listings again"
    assert trimmed_ptx(ptx) == case.text("ptx", arch), packed
    assert trimmed_sass(disassembly(cubin, case.name)) == case.text("sass", arch), packed
