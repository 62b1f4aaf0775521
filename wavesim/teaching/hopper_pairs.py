"""Pairs as our Hopper kernels ran them: stream sync, dependent launch, semaphores, each in its best tiles.

Example: GPT-3's MLP at 3,328 tokens on an H200: 1,594 us on one stream, 1,600 with dependent launch, 1,580
by Stream-K, 1,553 with row semaphores and by cuBLASLt. Read from the summary that ships with the package.
"""

from collections.abc import Mapping
from pathlib import Path

from wavesim.recordings.measured_pairs import FILE, measured_pairs_from
from wavesim.safe_io.annotated import typed
from wavesim.teaching.shown import Shown

WORKLOAD, BASELINE = "gpt3-mlp", "stream"
# The benchmark's names in words; every candidate runs in the tiles and order that were fastest for it.
CANDIDATES = {
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


@typed
def measured_pairs(path: Path = FILE) -> Shown:
    """The summary's GPT-3 pairs as a table. Raises `RecordingError` for a file that is no summary."""
    found = measured_pairs_from(path)
    sizes = found.median_ns.get(WORKLOAD, {})
    times = {tokens: sizes[tokens] for tokens in SHOWN if BASELINE in sizes.get(tokens, {})}
    titles = (
        f"{found.device}, {found.date[:10]}, measured: µs (points over stream sync)",
        *(f"{tokens:,} tokens" for tokens in times),
    )
    cells = tuple(
        (words, *(_cell(of_size, name) for of_size in times.values())) for name, words in CANDIDATES.items()
    )
    return Shown(titles, cells)


def _cell(of_size: Mapping[str, int], name: str) -> str:
    if name not in of_size:
        return "-"
    points = 100 * (1 - of_size[name] / of_size[BASELINE])
    return f"{of_size[name] / 1e3:.0f}" + ("" if name == BASELINE else f" ({points:+.1f})")
