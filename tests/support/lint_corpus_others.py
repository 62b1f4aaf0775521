"""Compiles the corpus's kernels of CUTLASS and of ours, and takes Triton's, for `lint_corpus.py` to pack.

`python tests/support/lint_corpus_others.py ours`; `cutlass` with nvcc and the folder that CUTLASS_INCLUDE
names; `triton FOLDER` takes what `lint_corpus_triton.py` wrote there.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from lint_cases import FOLDER, cases
from lint_corpus import CACHE, keep

from wavesim.codegen.cuda import stage_header
from wavesim.lint.disassembler import disassembly
from wavesim.model.device import load
from wavesim.plan.parsing import plan_of_words

CUTLASS = FOLDER / "cutlass"
# Name in the corpus: file, architectures, macros.
GEMM = "cutlass::gemm::"
COOPERATIVE = ("SCHEDULE=KernelTmaWarpSpecializedCooperative", "EPILOGUE=TmaWarpSpecializedCooperative")
PINGPONG = ("SCHEDULE=KernelTmaWarpSpecializedPingpong", "EPILOGUE=TmaWarpSpecialized")
DRIVERS = {
    "semaphores": ("semaphores.cu", ("sm_80", "sm_90a", "sm_100a", "sm_120a"), ()),
    "pipelines": ("pipelines.cu", ("sm_90a",), ()),
    "split_k_gemm": ("split_k_gemm.cu", ("sm_80",), ()),
    "stream_k_gemm": ("stream_k_gemm.cu", ("sm_80",), ()),
    "tma_gemm.cooperative": ("tma_gemm.cu", ("sm_90a",), COOPERATIVE),
    "tma_gemm.pingpong": ("tma_gemm.cu", ("sm_90a",), PINGPONG),
    "tma_gemm.cluster": ("tma_gemm.cu", ("sm_90a",), (*COOPERATIVE, "CLUSTER_SIZE=cute::_2")),
    "tma_gemm.stream_k": ("tma_gemm.cu", ("sm_90a",), (*COOPERATIVE, f"SCHEDULER={GEMM}StreamKScheduler")),
}


def write(name, arch, ptx, cubin):
    keep(CACHE / f"{name}.{arch}.ptx", ptx.encode())
    keep(CACHE / f"{name}.{arch}.sass", disassembly(cubin, name).encode())


def from_triton(folder):
    for path in sorted(Path(folder).glob("*.cubin")):
        name, arch = path.stem.rsplit(".", 1)
        write(name, arch, path.with_suffix(".ptx").read_text(), path.read_bytes())


def from_cutlass():
    for name, (file, archs, macros) in DRIVERS.items():
        for arch in archs:
            if (CACHE / f"cutlass.{name}.{arch}.ptx").exists():
                continue
            with tempfile.TemporaryDirectory() as folder:
                flags = [
                    "-std=c++17",
                    f"-arch={arch}",
                    "-O3",
                    "-DNDEBUG",
                    "--expt-relaxed-constexpr",
                    "-keep",
                ]
                includes = ["-I", os.environ["CUTLASS_INCLUDE"]]
                defined = [f"-D{macro}" for macro in macros]
                words = [
                    "nvcc",
                    *flags,
                    *defined,
                    *includes,
                    "-cubin",
                    str(CUTLASS / file),
                    "-o",
                    "kernel.cubin",
                ]
                subprocess.run(words, check=True, cwd=folder)
                (ptx,) = Path(folder).glob("*.ptx")
                write(f"cutlass.{name}", arch, ptx.read_text(), (Path(folder) / "kernel.cubin").read_bytes())


def from_ours():
    from small_pipelines import pair

    from wavesim_gpu.driver.compiler import Build, compile_cubin
    from wavesim_gpu.driver.functions import GENERATED
    from wavesim_gpu.run.planned_kernels import kernels_of

    tiles = {"portable": (64, 64, 32), "hopper": (64, 128, 64)}
    for case in cases():
        if not case.name.startswith("ours."):
            continue
        _, backend, words, stage = case.name.split(".")
        pipeline = pair(m=100, k=128, hidden=256, n=136, tiles=(tiles[backend], tiles[backend]))
        plan = plan_of_words(*words.split("+"))
        texts = {
            stage_of.name: stage_header(pipeline, plan, stage_of.name).text for stage_of in pipeline.stages
        }
        kernels = kernels_of(pipeline, plan, load("h200"), backend)
        (kernel,) = (candidate for candidate in kernels if stage in candidate.stages)
        for arch in case.archs:
            headers = {GENERATED: kernel.header(texts)}
            cubin = compile_cubin(kernel.backend.source, [kernel.launch.expression], arch, Build(), headers)
            write(case.name, arch, cubin.ptx, cubin.data)


if __name__ == "__main__":
    {"ours": from_ours, "cutlass": from_cutlass, "triton": from_triton}[sys.argv[1]](*sys.argv[2:])
