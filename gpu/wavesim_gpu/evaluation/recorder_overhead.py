"""What recording costs: kernels with and without the recorder in turns, on tiles of about 100 microseconds.

Example: `python -m wavesim_gpu.evaluation.recorder_overhead` times the textbook matrix product in CUDA
C++ (eight blocks per SM) and one in Triton (one block per SM), and writes gpu/results/recorder/DATE.json.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.safe_io.program import run_program
from wavesim.safe_io.writing import write_text
from wavesim_gpu.driver.device import query, require_cupy, versions
from wavesim_gpu.driver.timing import Contender, interleaved_ns
from wavesim_gpu.record import INCLUDE, Recording
from wavesim_gpu.runner import current_commit

EXAMPLES = Path(__file__).parents[2] / "examples"
RESULTS = Path(__file__).parents[2] / "results" / "recorder"
TILE_NS = 100_000
ROUNDS = 100
ROOM = 1 << 22  # tiles: enough for every round, so that no run meets a full buffer
SIDE, START_K = 16, 1024


def cuda_launcher(recording: Any, k: int, is_recording: bool) -> Callable[[Any], None]:
    """The textbook matrix product of `gpu/examples`, 2048 x 1536 in tiles of 16 x 16, on a CuPy stream."""
    cupy = require_cupy()
    options = ("--std=c++17", f"-I{INCLUDE}", f"-DWAVESIM_RECORD={int(is_recording)}")
    code = (EXAMPLES / "recorded_pair.cu").read_text()
    function = cupy.RawModule(code=code, options=options).get_function("matmul")
    m, n = 2048, 1536
    a, b = (
        cupy.random.standard_normal((m, k), dtype="float32"),
        cupy.random.standard_normal((k, n), dtype="float32"),
    )
    c = cupy.empty((m, n), np.float32)
    arguments = (a, b, c, np.int32(n), np.int32(k), recording)

    def launch(stream: Any) -> None:
        with stream:
            function((n // SIDE, m // SIDE), (SIDE, SIDE), arguments)

    return launch


def triton_launcher(recording: Any, k: int) -> Callable[[Any], None]:
    """The first product of the Triton pair, 8192 x 4096 in tiles of 128 x 256, on a CuPy stream."""
    import torch  # noqa: PLC0415  # optional, as is Triton

    sys.path.insert(0, str(EXAMPLES))
    from triton_pair import TritonPair  # noqa: PLC0415

    pair = TritonPair(8192, k, 4096, 256)
    operands = pair.operands()

    def launch(stream: Any) -> None:
        with torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
            pair.launch(operands, 0, recording)

    return launch


def tile_ns(recording: Recording, launch: Callable[[Any], None], stream: Any) -> float:
    """Median time of a tile in one recorded run."""
    for _ in range(2):
        recording.reset()
        require_cupy().cuda.Device().synchronize()
        launch(stream)
        found = recording.records()
    return float(np.median(found["end_ns"] - found["start_ns"]))


def measure(name: str) -> dict[str, Any]:
    """One kernel: its tile time and the overhead in percent, median and quartiles over paired rounds."""
    cupy = require_cupy()
    is_triton = name == "triton"
    recording = Recording(["tiles"], capacity=ROOM, library="torch" if is_triton else "cupy")
    stream = cupy.cuda.Stream(non_blocking=True)

    def launcher(k: int, is_recording: bool) -> Callable[[Any], None]:
        if is_triton:
            return triton_launcher(recording.buffer if is_recording else None, k)
        return cuda_launcher(recording.buffer, k, is_recording)

    k = START_K
    for _ in range(2):  # the second time near the final depth, at the clock that belongs to it
        first = tile_ns(recording, launcher(k, True), stream)
        k = max(START_K, round(k * TILE_NS / first / 64) * 64)
    plain, recorded = launcher(k, False), launcher(k, True)
    own_ns = tile_ns(recording, recorded, stream)
    recording.reset()
    cupy.cuda.Device().synchronize()
    # Twice without: what their medians differ by is the noise.
    contenders = [Contender(lambda run=run: run(stream), stream) for run in (plain, recorded, plain)]
    times = np.array(interleaved_ns(contenders, ROUNDS), float)
    assert len(recording.records()) > 0
    overhead, noise = (100 * (other / times[0] - 1) for other in times[1:])
    low, high = np.percentile(overhead, [25, 75])
    return {
        "kernel": name,
        "k": k,
        "tile_ns": round(own_ns),
        "plain_ns": round(statistics.median(times[0])),
        "recorded_ns": round(statistics.median(times[1])),
        "overhead_percent": round(float(np.median(overhead)), 3),
        "overhead_quartiles": [round(float(low), 3), round(float(high), 3)],
        "noise_percent": round(float(np.median(noise)), 3),
        "rounds_ns": {
            "plain": times[0].tolist(),
            "recorded": times[1].tolist(),
            "plain again": times[2].tolist(),
        },
    }


def main() -> int:
    """Measures both kernels and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    parser.add_argument("--commit", help="commit of the recorder, where git cannot tell")
    options = parser.parse_args()
    now = datetime.now(UTC)
    result = {
        "device": query().name,
        "date": now.strftime("%Y-%m-%d"),
        "commit": options.commit or current_commit(),
        "versions": versions(),
        "cases": [measure(name) for name in ("cuda", "triton")],
    }
    write_text(options.out / f"{now:%Y-%m-%dT%H%M%SZ}.json", json.dumps(result) + "\n")
    for case in result["cases"]:
        print({key: value for key, value in case.items() if key != "rounds_ns"})  # noqa: T201  # what it is for
    return 0


if __name__ == "__main__":
    sys.exit(run_program("recorder_overhead", main))
