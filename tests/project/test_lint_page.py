"""docs/lint.md has a row for every rule of lint, in their order, and every option that says something."""

import re
from pathlib import Path

from wavesim.cli.lint import SAID
from wavesim.lint.rules import RULES

PAGE = (Path(__file__).parents[2] / "docs" / "lint.md").read_text(encoding="utf-8")


def test_every_rule_has_its_row_and_no_other_has_one():
    table = PAGE.partition("## The rules")[2]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, flags=re.MULTILINE) == list(RULES)


def test_every_option_by_which_a_user_says_something_is_on_the_page():
    assert re.findall(r"^\| `--([a-z]+) ", PAGE, flags=re.MULTILINE) == list(SAID)
