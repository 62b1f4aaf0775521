"""The figures with which a page begins are those of its tables, and WaveRNN's are those recorded."""

import re
from pathlib import Path

import pytest

from wavesim.recordings.wavernn_times import recorded_wavernn
from wavesim.workloads.wavernn import WAY_TEXTS

DOCS = Path(__file__).parents[2] / "docs"
NUMBER = r"(\d+\.\d+)"


def summary(name: str) -> str:
    """What stands above the page's second heading, in one line."""
    return " ".join((DOCS / name).read_text(encoding="utf-8").partition("\n## ")[0].split())


def figures(name: str, row: str) -> tuple[str, ...]:
    """What the parentheses of `row` find in the only line that it fits: of the page, or of a block of it."""
    name, _, block = name.partition("#")
    page = (DOCS / name).read_text(encoding="utf-8")
    if block:
        page = page.partition(f"<!-- {block}: begin -->")[2].partition(f"<!-- {block}: end -->")[0]
    (found,) = re.findall(row, page, re.MULTILINE)
    return (found,) if isinstance(found, str) else found


LAYERS = [
    ("layers are {0:.2f} times as fast", rf"^\| layer over PyTorch \| 8 \| {NUMBER}"),
    ("mean of 8; {0:.2f} to {1:.2f})", rf"^\| layer over PyTorch \| 8 \| [\d.]+ \| {NUMBER} \| {NUMBER}"),
    ("at least {0:.2f} times as fast as cuDNN's", rf"^\| attention over cuDNN's .*?\| {NUMBER} \| aim"),
    ("products {0:.2f} as fast as", rf"^\| product over cuBLASLt \| 32 \| {NUMBER}"),
    (
        "product are {0:.2f} times as fast as under stream sync ({1:.2f} to {2:.2f})",
        rf"^\| chain, semaphores over stream sync, each its best \| 8 \| {NUMBER} \| {NUMBER} \| {NUMBER}",
    ),
    ("{0:.2f} times as fast as by dependent launch", rf"^\| chain, semaphores over dep.*?\| 8 \| {NUMBER}"),
    ("{0:.1f} points off at the median", rf"^\| error of predicted gains.*? median.*?0\.5 \| {NUMBER} \|"),
    ("and {0:.1f} at 90 %", rf"^\| error of predicted gains, points, 90 % .*?{NUMBER} \| must"),
    ("layer times {0:.1f} %", rf"^\| error of a layer's predicted time, .*?\| {NUMBER} \|"),
]
CONVOLUTIONS = [
    ("convolutions are {0:.2f} times as fast", rf"^\| one 3x3, 128 .*?0\.85 \| 1\.00 \| {NUMBER}"),
    ("({0:.2f} with 64", rf"^\| one 3x3, 64 .*?0\.65 \| 0\.85 \| {NUMBER}"),
    ("1x1 ones {0:.2f},", rf"^\| one 1x1, .*?0\.90 \| 1\.00 \| {NUMBER}"),
]
AT_BATCH_1 = [
    ("closely", "{0:.2f} times as fast as stream sync in 13", "dep"),
    ("near-filters", "too, {0:.2f} else", "dep"),
    ("closely", "semaphores {0:.2f} and", "sem"),
    ("near-filters", "and {0:.2f}. Semaphores gain", "sem"),
]
TWO_GPUS = [
    (
        "are {0:.2f} times as fast as cuBLAS and NCCL",
        rf"^\| cuBLAS, then NCCL \| all-reduce \| 1,024 or more \| 13 \| {NUMBER}",
    ),
    (
        "mean of 13; {0:.2f} to {1:.2f})",
        rf"^\| cuBLAS, then NCCL \| all-reduce \| 1,024 or more \| 13 \| [\d.]+ \| {NUMBER} \| {NUMBER}",
    ),
    ("gain {0:.2f} over", rf"^\| PyTorch's fused one \| reduce-scatter .*?\| 13 \| {NUMBER}"),
    ("have {0:.2f} of NCCL's speed", rf"^\| NCCL, then cuBLAS \| all-gather .*?\| 9 \| {NUMBER}"),
    ("and {0:.2f} of PyTorch's", rf"^\| PyTorch's fused one \| all-gather .*?\| 9 \| {NUMBER}"),
    ("off by {0:.1f} % at the median and {1:.1f} %", rf"^\| all but \* \| 180 \| {NUMBER} \| {NUMBER}"),
    ("fitted to them ({0:.1f} and {1:.1f} %)", rf"^\| all \| 252 \| {NUMBER} \| {NUMBER}"),
]


@pytest.mark.parametrize(
    ("name", "words", "row"),
    [("layers.md", *each) for each in LAYERS]
    + [("convolutions.md#filters-first", *each) for each in CONVOLUTIONS]
    + [
        (
            f"convolutions.md#{block}",
            words,
            rf"^\| pairs at batch 1, {of}.*?1\.25 \| {NUMBER} \| [^|]* \| 13,",
        )
        for block, words, of in AT_BATCH_1
    ]
    + [("two-gpus.md", *each) for each in TWO_GPUS],
)
def test_a_figure_of_a_summary_is_its_tables(name, words, row):
    said = words.format(*map(float, figures(name, row)))
    assert said in summary(name.partition("#")[0])


def test_wavernns_times_on_the_page_are_the_recorded_ones():
    page = (DOCS / "persistent-kernels.md").read_text(encoding="utf-8")
    found = recorded_wavernn()
    texts = WAY_TEXTS | {
        "words": "the same without a barrier: readers poll for data",
        "cluster": "one cluster of 16 blocks",
    }
    for way, text in texts.items():
        cells = []
        for dtype in ("fp16", "int8"):
            times, predicted = found.median_ns(dtype), found.predicted_ns[dtype]
            if way not in times:
                cells += ["none", "none"]
                continue
            before = f" ({predicted[way] / 1e3:,.0f})" if way in predicted else ""
            cells += [f"{times[way] / 1e3:,.0f}{before}", f"{times['library'] / times[way]:.2f}"]
        assert f"| {text} | {' | '.join(cells)} |" in page
    worst = max(abs(error) for dtype in ("fp16", "int8") for error in found.errors(dtype).values())
    assert f"within {worst * 100:.0f} %" in page
