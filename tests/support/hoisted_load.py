"""Makes what notebook 15 shows of a load that the compiler moves: `python tests/support/hoisted_load.py`.

Example: the source waits for the kernel before and then loads; in the machine code the load comes first.
"""

import json
import re
import tempfile
from pathlib import Path

from wavesim.lint.disassembler import disassembly
from wavesim.safe_io.writing import write_text
from wavesim.teaching.checked_kernels import HOISTED
from wavesim_gpu.driver.user_sources import compile_user_source

ARCH = "sm_90a"
SOURCE = """extern "C" __global__ void scale_rows(INPUT in, float* __restrict__ out, int columns) {
    int at = blockIdx.x * columns + threadIdx.x;
    if (columns > 128) {
        asm volatile("griddepcontrol.wait;"CLOBBER);
        out[at] = in[at] * 2.0f;
    } else {
        asm volatile("griddepcontrol.wait;"CLOBBER);
        out[at] = in[at] * 3.0f;
    }
}
"""
FORMS = {"wrong": ("const float* __restrict__", ""), "right": ("const float*", ' ::: "memory"')}


def listings() -> dict[str, dict[str, str]]:
    """Source, PTX and machine code of the wrong kernel and of its right twin, compiled now."""
    found = {}
    for name, (pointer, clobber) in FORMS.items():
        source = SOURCE.replace("INPUT", pointer).replace("CLOBBER", clobber)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "scale_rows.cu"
            path.write_text(source)
            ptx, cubin = compile_user_source(path, ARCH)
            sass = disassembly(cubin, "scale_rows.cubin")
        ptx = ptx.partition("\t.file\t")[0]  # which names the folder
        found[name] = {"source": source, "ptx": ptx, "sass": re.sub(r'"/[^"]*/', '"', sass)}
    return found


if __name__ == "__main__":
    write_text(HOISTED, json.dumps({"arch": ARCH, **listings()}, indent=1) + "\n")
