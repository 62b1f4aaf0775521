"""Writes docs/record-your-kernel.md: record_page.md with the recorded pair's lines and what recording costs.

Example: `python gpu/examples/record_page.py` after a change to the pair or a new measurement; a test says
when the page is old.
"""

import difflib
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TEXT, PLAIN, RECORDED = HERE / "record_page.md", HERE / "plain_pair.cu", HERE / "recorded_pair.cu"
RESULTS = HERE.parent / "results" / "recorder"
PAGE = HERE.parents[1] / "docs" / "record-your-kernel.md"
KERNELS = {
    "cuda": "a textbook matrix product in CUDA C++, eight blocks per SM",
    "triton": "a matrix product in Triton, one block per SM",
}


def page() -> str:
    """The whole page."""
    plain, recorded = PLAIN.read_text().splitlines(), RECORDED.read_text().splitlines()
    lines = difflib.unified_diff(plain, recorded, PLAIN.name, RECORDED.name, lineterm="", n=3)
    newest = json.loads(max(RESULTS.glob("*.json")).read_text())
    return TEXT.read_text().replace("{diff}", "\n".join(lines)).replace("{overhead}", overhead(newest))


def overhead(result: dict[str, Any]) -> str:
    """The measured cost in words."""
    cases = "\n".join(
        f"- {KERNELS[case['kernel']]}, tiles of {case['tile_ns'] / 1000:.0f} us: "
        f"{case['overhead_percent']:+.2f} % (quartiles {case['overhead_quartiles'][0]:+.2f} to "
        f"{case['overhead_quartiles'][1]:+.2f}; the same kernel against itself {case['noise_percent']:+.2f})"
        for case in result["cases"]
    )
    rounds = len(result["cases"][0]["rounds_ns"]["plain"])
    return (
        f"Measured on an {result['device']}, {result['date']}, commit {result['commit'][:7]}: kernels with "
        f"and without\nthe recorder in turns, medians of {rounds} rounds.\n\n{cases}"
    )


if __name__ == "__main__":
    PAGE.write_text(page())
