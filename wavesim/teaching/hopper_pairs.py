"""Pairs as our Hopper kernels ran them: stream sync, dependent launch, semaphores, each in its best tiles.

Example: GPT-3's MLP at 1,792 tokens on an H200: 927 us on one stream, 920 with dependent launch, 879 by
Stream-K, 861 with row semaphores, 875 by cuBLASLt. Read from `gpu/results`, in a checkout.
"""

from pathlib import Path

import wavesim
from wavesim.errors import RecordingError
from wavesim.evaluation.gpu_results import GpuResults, load_results
from wavesim.evaluation.speedups import pairs_of
from wavesim.teaching.shown import Shown

RESULTS = Path(wavesim.__file__).parents[1] / "gpu" / "results"
WORKLOAD, BASELINE = "gpt3-mlp", "stream"
# The benchmark's names in words; every contender runs in the tiles and order that were fastest for it.
CONTENDERS = {
    "stream": "Persistent kernels, stream sync",
    "stream per tile": "A block per tile, stream sync",
    "pdl": "Persistent kernels, dependent launch",
    "stream-k": "Stream-K, stream sync",
    "row": "Row semaphores",
    "tile": "Tile semaphores",
    "persistent": "One persistent kernel, its best semaphores",
    "cublaslt": "cuBLASLt",
}
SHOWN = (128, 256, 768, 1024, 1280, 1792, 2560, 3328, 4096)  # tokens, of the twenty in a full benchmark
Times = dict[int, dict[str, float]]  # tokens -> contender -> median in microseconds


def measured_pairs(folder: Path = RESULTS) -> Shown | None:
    """The newest benchmark's pairs as a table, or None where no results are."""
    for path in sorted(folder.glob("*.json"), reverse=True):
        try:
            results = load_results(path)
        except RecordingError:  # of another version: an older file may do
            continue
        times = _times(results)
        if times:
            return _table(times, f"{results.device}, {results.date[:10]}, measured")
    return None


def _times(results: GpuResults) -> Times:
    """Medians of the final, correct cases, where the baseline is among them."""
    found = {
        tokens: {name: case.median_ns / 1e3 for name, case in cases.items() if name in CONTENDERS}
        for tokens, cases in pairs_of(results, WORKLOAD).items()
        if tokens in SHOWN
    }
    return {tokens: times for tokens, times in found.items() if BASELINE in times}


def _table(times: Times, source: str) -> Shown:
    titles = (f"{source}: µs (points over stream sync)", *(f"{tokens:,} tokens" for tokens in times))
    cells = tuple(
        (words, *(_cell(of_size, name) for of_size in times.values())) for name, words in CONTENDERS.items()
    )
    return Shown(titles, cells)


def _cell(of_size: dict[str, float], name: str) -> str:
    if name not in of_size:
        return "-"
    points = 100 * (1 - of_size[name] / of_size[BASELINE])
    return f"{of_size[name]:.0f}" + ("" if name == BASELINE else f" ({points:+.1f})")
