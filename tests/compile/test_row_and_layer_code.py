"""The machine code of row kernels and of the GEMM's layer forms: nothing spilled, 16 bytes a load."""

import re
import subprocess

import pytest

from wavesim.codegen.cuda import stage_header
from wavesim.model.device import load
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.epilogue import CacheStore, Rope
from wavesim.work.rows import Copy, Norm, Softmax
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.driver.functions import GENERATED
from wavesim_gpu.kernels.backends import backend_of

pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")

WORKS = {
    "norm": Norm("norm", 64, 4096, 8, dtype="bf16"),
    "softmax": Softmax("softmax", 1, 64, 2, 2048, 8, dropout=0.1),
    "copy": Copy("copy", 64, 512),
}
QKV = {"rope": Rope(5, 128, 64), "cache": CacheStore(128, 64, 128), "has_bias": True, "b_order": "column"}
SPIN_ARGUMENT_BYTES = 32
WIDE = ("gemm", 64, 768, 512, 128, 256, 64)


def code_of(work, words, arch, path, nvdisasm):
    stage = Stage(work.name, work)
    pipeline, plan, backend = Pipeline("alone", [stage]), parse_plan(words), backend_of(stage, "hopper")
    launch = backend.launch(work, plan, load("h200"))
    header = stage_header(pipeline, plan, stage.name).text
    path.write_bytes(
        compile_cubin(backend.source, [launch.expression], arch, Build(), {GENERATED: header}).data
    )
    return subprocess.run([nvdisasm, path], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", WORKS)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_rows_are_loaded_and_stored_16_bytes_at_a_time_and_nothing_is_spilled(name, arch, tmp_path, nvdisasm):
    code = code_of(WORKS[name], "persistent-stream", arch, tmp_path / "rows.cubin", nvdisasm)
    assert re.search(r"\bLDG\.E\.128", code)
    assert re.search(r"\bSTG\.E\.128", code)
    assert not re.search(r"\b(LDG|STG)\.E\.[US]?(8|16)\b", code)
    # The stack has 32 bytes, for the arguments of the function that spins.
    offsets = {int(offset or "0", 16) for offset in re.findall(r"\bSTL\S* \[R1(?:\+0x(\w+))?\]", code)}
    assert max(offsets) < SPIN_ARGUMENT_BYTES


@pytest.mark.parametrize(
    ("form", "instruction"),
    [({"has_residual": True, "dtype": "bf16"}, r"HADD2\.BF16|HFMA2\.BF16"), (QKV, r"UTMASTG\.3D")],
    ids=["residual", "rope and cache"],
)
def test_layer_forms_of_the_widest_tile_spill_nothing(form, instruction, tmp_path, nvdisasm):
    code = code_of(Gemm(*WIDE, **form), "persistent-stream", "sm_90a", tmp_path / "gemm.cubin", nvdisasm)
    assert re.search(instruction, code)
    assert not re.search(r"\b(STL|LDL)\b", code)
