"""Lint's pages have a row for every rule, in their order, and every option that says something."""

import re
from pathlib import Path

from wavesim.cli.lint import SAID
from wavesim.lint.rules import RULES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "lint.md").read_text(encoding="utf-8")
RULES_PAGE = (DOCS / "lint-rules.md").read_text(encoding="utf-8")


def test_every_rule_has_its_row_and_no_other_has_one():
    assert re.findall(r"^\| `([a-z-]+)` \|", RULES_PAGE, flags=re.MULTILINE) == list(RULES)


def test_every_option_by_which_a_user_says_something_is_on_the_page():
    assert re.findall(r"^\| `--([a-z]+) ", PAGE, flags=re.MULTILINE) == list(SAID)
