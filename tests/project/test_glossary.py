"""Every place that the glossary points to exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    line.split(" | ")
    for line in (ROOT / "GLOSSARY.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| **")
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip("|* "))
def test_a_term_of_the_glossary_points_to_code_that_exists(row):
    path, *names = re.findall(r"`([^`]+)`", row[-1])
    text = (ROOT / path).read_text(encoding="utf-8")
    for name in names:
        for part in name.split("."):
            assert re.search(rf"\b{part}\b", text), f"{path} has no {part}"
