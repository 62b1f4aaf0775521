"""All programs of this folder for 10^8 operations, and what came of it: `python tests/host/host_long_run.py`.

It takes some minutes of two cores and writes host_long_run.json: date, machine, a hash of the sources, and of
each program its operations (polls that found nothing are not counted), rounds, seconds, races that
ThreadSanitizer reported, and results that were wrong.
"""

import hashlib
import json
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

HOST, ROOT = Path(__file__).parent, Path(__file__).parents[2]
RESULT = HOST / "host_long_run.json"
RUN = "python tests/host/host_long_run.py"
SEEDS = 4
# What the programs are made of beside the kernels, with all that these include.
FILES = (
    *(
        "semaphore_ring.cpp",
        "semaphore_pipeline.cpp",
        "decode_chain.cpp",
        "conv_chain.cpp",
        "persistent_gemm.cpp",
    ),
    *("cuda_on_host.h", "ptx_on_host.h", "resident_blocks.h", "shared_memory_on_host.h"),
)
# Of each program, over all seeds.
OPERATIONS = {
    "ring": 90_000_000,
    "row": 7_000_000,
    "tile": 7_000_000,
    "decode": 7_000_000,
    "conv": 3_000_000,
    "split": 3_000_000,
    "short": 3_000_000,
    "cluster": 3_000_000,
    "residual": 3_000_000,
    "fused": 2_000_000,
}


def sources() -> list[Path]:
    """The kernels' files that the programs are made of, without those that others stand in for."""
    gpu = ROOT / "gpu" / "wavesim_gpu"
    folders = [gpu / name for name in ("cusync", "kernels/gemm/sm90", "kernels/convolution", "kernels/rows")]
    attention = ("decode.cu", "operand.cuh", "spins_in_line.cuh", "warp_rows.cuh")
    files = [file for folder in folders for file in sorted(folder.rglob("*.cuh"))]
    portable = ("tensor_core.cuh", "tile_config.cuh", "warp_tile.cuh")
    files += [
        ROOT / "wavesim" / "codegen" / "semaphore.cuh",
        *(gpu / "kernels" / "gemm" / "sm80" / name for name in portable),
    ]
    files += [gpu / "kernels" / "convolution" / "conv_sm80.cu"]
    files += [gpu / "kernels" / "attention" / name for name in attention]
    stand_ins = {file.name for file in (HOST / "shadow").rglob("*.cuh")}
    return [file for file in files if file.name not in stand_ins]


def sources_hash() -> str:
    """Of all that the programs are made of: the kernels' files and this folder's C++."""
    files = [*sources(), *HOST.rglob("*.cuh"), *(HOST / name for name in FILES)]
    texts = sorted((file.name, file.read_text()) for file in files)
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]


def main() -> int:
    """Builds and runs everything. 1 where something was reported or wrong."""
    sys.path[:0] = [str(ROOT), str(ROOT / "gpu"), str(HOST)]
    from host_programs import build_program, run

    programs = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, operations in OPERATIONS.items():
            program = build_program(name, Path(folder, name))
            began = time.monotonic()
            results = [run(program, operations // SEEDS, seed, timeout_s=3600) for seed in range(SEEDS)]
            programs[name] = {
                "operations": sum(one.operations for one in results),
                "rounds": sum(one.rounds for one in results),
                "races": sum(len(one.races) for one in results),
                "wrong": sum(one.wrong for one in results),
                "seconds": round(time.monotonic() - began),
            }
            sys.stdout.write(f"{name}: {programs[name]}\n")
            sys.stdout.flush()
    compiler = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout
    found = {
        "date": datetime.now(UTC).date().isoformat(),
        "sources": sources_hash(),
        "machine": f"{platform.machine()}, {_processor()}",
        "compiler": compiler.splitlines()[0],
        "programs": programs,
    }
    RESULT.write_text(json.dumps(found, indent=2) + "\n")
    return int(any(one["races"] or one["wrong"] for one in programs.values()))


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


if __name__ == "__main__":
    raise SystemExit(main())
