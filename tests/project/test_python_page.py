"""The examples of docs/python.md run, with the output that the page shows."""

import doctest
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_example_of_the_page_prints_what_the_page_shows(monkeypatch):
    monkeypatch.chdir(ROOT)
    result = doctest.testfile(str(ROOT / "docs" / "python.md"), module_relative=False)
    assert result.attempted > 15
    assert result.failed == 0
