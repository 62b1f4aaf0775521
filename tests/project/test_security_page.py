"""SECURITY.md states the limits that the code has, and points to files that are there."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| .+ \| ([\d,]+) \| `([\w.]+)` \|$", PAGE, re.MULTILINE)


def test_the_page_states_limits():
    assert len(ROWS) >= 15
    assert len(ROWS) == sum(line.startswith("| ") for line in PAGE.splitlines()) - 2


@pytest.mark.parametrize(("stated", "place"), ROWS, ids=[place for _, place in ROWS])
def test_a_limit_is_as_stated(stated, place):
    module, name = place.rsplit(".", 1)
    assert getattr(importlib.import_module(module), name) == int(stated.replace(",", ""))


def test_files_and_targets_that_the_page_names_are_there():
    for name in re.findall(r"\]\(([\w./]+)\)|`((?:requirements|binder|tests)/[\w./]*)`", PAGE):
        assert (ROOT / (name[0] or name[1])).exists(), name
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make (\w+)", PAGE):
        assert f"\n{target}: " in makefile, target


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_readers_are_led_to_it(page):
    assert "(SECURITY.md)" in (ROOT / page).read_text(encoding="utf-8")
