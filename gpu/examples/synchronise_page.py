"""Writes docs/synchronise-your-kernel.md: synchronise_page.md, the differences of two pairs, a table.

Example: `python gpu/examples/synchronise_page.py` after a change to a pair, in CUDA or in Triton, or to the
text; a test says when the page is old.
"""

import difflib
from pathlib import Path

HERE = Path(__file__).parent
TEXT = HERE / "synchronise_page.md"
CUDA = ("plain_pair.cu", "synchronised_pair.cu")
TRITON = ("plain_triton.py", "synchronised_triton.py")
TABLE = HERE.parent / "results" / "triton" / "table.md"
PAGE = HERE.parents[1] / "docs" / "synchronise-your-kernel.md"


def diff_lines(pair: tuple[str, str] = CUDA) -> list[str]:
    """The unified difference of two kernels, with enough context to read it alone."""
    plain, synchronised = (_kernels((HERE / name).read_text()) for name in pair)
    return list(difflib.unified_diff(plain, synchronised, *pair, lineterm="", n=3))


def _kernels(text: str) -> list[str]:
    """Of a Python file the Triton kernels alone, of any other all lines."""
    start, end = text.find("@triton.jit"), text.find("def run(")
    return (text[start:end] if start >= 0 else text).splitlines()


def changed_lines(pair: tuple[str, str] = CUDA) -> int:
    """Lines of the synchronised version that are new or different, comments included."""
    return sum(line.startswith("+") and not line.startswith("+++") for line in diff_lines(pair))


def page() -> str:
    """The whole page."""
    text = TEXT.read_text()
    for name, pair in (("cuda", CUDA), ("triton", TRITON)):
        text = text.replace(f"{{{name} changed}}", str(changed_lines(pair)))
        text = text.replace(f"{{{name} diff}}", "\n".join(diff_lines(pair)))
    rows = [line for line in TABLE.read_text().splitlines() if line.startswith("|")]
    return text.replace("{triton table}", "\n".join(rows))


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
