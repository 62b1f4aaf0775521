"""The corpus is whole: every case has its listings, every mutant a right twin, every class a rule."""

import tomllib
from collections import Counter

import pytest
from lint_cases import FOLDER, cases, packed

from wavesim.lint.rules import RULES

CLASSES = tomllib.loads((FOLDER / "cases.toml").read_text())["classes"]


def test_no_two_cases_share_a_name():
    assert not [name for name, count in Counter(case.name for case in cases()).items() if count > 1]


def test_every_case_has_ptx_and_machine_code_and_nothing_else_is_packed():
    named = {f"{case.name}.{case.archs[0]}.ptx" for case in cases()}
    named |= {f"{case.name}.{arch}.sass" for case in cases() for arch in case.archs}
    assert named == packed().keys()


def test_every_mutant_has_a_right_twin_that_differs_by_one_macro():
    right = {(case.template, case.defines) for case in cases() if case.family == "right"}
    for case in cases():
        if case.family == "mutant":
            assert (case.template, case.defines[:-1]) in right, case.name


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_is_held_to_rules_and_has_mutants(name):
    assert set(CLASSES[name]["rules"]) <= RULES.keys()
    assert any(case.fault == name for case in cases())


def test_listings_name_no_folder_of_the_machine_that_made_them():
    assert not [name for name, text in packed().items() if '"/' in text]
