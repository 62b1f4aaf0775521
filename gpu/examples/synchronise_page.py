"""Writes docs/synchronise-your-kernel.md: synchronise_page.md with the difference between the two pairs.

Example: `python gpu/examples/synchronise_page.py` after a change to either pair or the text; a test says
when the page is old.
"""

import difflib
from pathlib import Path

HERE = Path(__file__).parent
TEXT = HERE / "synchronise_page.md"
PLAIN, SYNCHRONISED = HERE / "plain_pair.cu", HERE / "synchronised_pair.cu"
PAGE = HERE.parents[1] / "docs" / "synchronise-your-kernel.md"


def diff_lines() -> list[str]:
    """The unified difference, with enough context to read both kernels whole."""
    plain, synchronised = PLAIN.read_text().splitlines(), SYNCHRONISED.read_text().splitlines()
    return list(difflib.unified_diff(plain, synchronised, PLAIN.name, SYNCHRONISED.name, lineterm="", n=3))


def changed_lines() -> int:
    """Lines of the synchronised version that are new or different, comments included."""
    return sum(line.startswith("+") and not line.startswith("+++") for line in diff_lines())


def page() -> str:
    """The whole page."""
    text = TEXT.read_text().replace("{changed}", str(changed_lines()))
    return text.replace("{diff}", "\n".join(diff_lines()))


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
