"""Writes docs/memory-model.md: the litmus tests of our protocols and their verdicts, worked out anew.

Example: `python tools/write_memory_model.py` after a change to `wavesim/litmus/`; a test says when the page
is old.
"""

from pathlib import Path

from wavesim.litmus.protocol_page import memory_model_page

PAGE = Path(__file__).parents[1] / "docs" / "memory-model.md"

if __name__ == "__main__":
    PAGE.write_text(memory_model_page(), encoding="utf-8")
