"""The exam of lint: how it judges, what it said when it was last taken, and a sample of it taken again."""

import json
from collections import Counter

import lint_page
import pytest
from lint_cases import Case, cases
from lint_exam import OPENING, SCORES, result_of, totals, verdict

from wavesim.lint.finding import Finding
from wavesim.safe_io.reading import read_text

RESULT = json.loads(SCORES.read_text())
FAULTS = [RESULT["families"][family] for family in ("mutant", "public")]
RIGHT = RESULT["families"]["right"]


def case(fault=""):
    expected = ("no-acquire",) if fault else ()
    return Case("made up", "mutant" if fault else "right", "none", (), ("sm_90a",), fault, expected)


def finding(said, rule="no-acquire"):
    return Finding("kernel", "wait", rule, said, "because")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([finding("wrong"), finding("unknown")], "found"),
        ([finding("wrong", "no-release"), finding("unknown")], "misnamed"),
        ([finding("right"), finding("unknown")], "unknown"),
        ([finding("right")], "missed"),
        ([], "missed"),
    ],
)
def test_a_fault_is_found_only_by_a_rule_that_it_breaks(said, expected):
    assert verdict(case("no-acquire"), said) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([finding("right"), finding("wrong")], "false alarm"),
        ([finding("right"), finding("unknown")], "unknown"),
        ([finding("right")], "right"),
    ],
)
def test_one_wrong_finding_makes_a_false_alarm(said, expected):
    assert verdict(case(), said) == expected


def test_the_stored_exam_was_taken_on_the_corpus_as_it_is():
    scored = {name: sum(counted.values()) for name, counted in RESULT["families"].items()}
    sealed = RESULT["sealed"]
    assert {name: count + sealed.get(name, 0) for name, count in scored.items()} == Counter(
        case.family for case in cases()
    )


def test_the_later_split_is_sealed_whole_or_scored_whole():
    later = Counter("fault" if case.fault else "right" for case in cases() if case.is_later)
    scored = {kind: sum(RESULT["splits"].get(f"later, {kind}", {}).values()) for kind in later}
    assert scored == (dict.fromkeys(later, 0) if RESULT["sealed"] else later)


def test_the_exam_leaves_the_later_split_sealed_unless_it_is_asked_for():
    found = totals([result_of(next(case for case in cases() if case.fault))])
    assert sum(found["sealed"].values()) == sum(case.is_later for case in cases())
    assert "later, fault" not in found["splits"]


def test_right_kernels_are_seldom_called_wrong_or_unknown():
    count = sum(RIGHT.values())
    assert RIGHT.get("false alarm", 0) <= 0.05 * count
    assert RIGHT.get("unknown", 0) <= 0.15 * count


def test_faults_are_found_as_often_as_they_have_been():
    opened = [RESULT["splits"][f"{split}, fault"] for split in ("development", "test", "later")]
    assert not any("missed" in counted or "misnamed" in counted for counted in opened)
    assert sum(counted["found"] for counted in opened) >= 0.995 * sum(sum(one.values()) for one in opened)


def test_a_sample_taken_again_goes_as_the_whole_did():
    # Every template's first fault, and its right twin; not of the later split, which `--later` opens.
    by_template = {}
    for one in (case for case in cases() if not case.is_later):
        by_template.setdefault((one.template, bool(one.fault)), one)
    chosen = [one for (template, _), one in by_template.items() if "/" not in template]
    found = totals([result_of(one) for one in chosen])
    right, faults = found["families"]["right"], found["families"]["mutant"]
    assert right.get("false alarm", 0) <= 0.05 * sum(right.values())
    assert faults["found"] >= 0.9 * sum(faults.values())


def test_the_second_sealed_split_goes_better_than_on_first_sight():
    first, since = json.loads(OPENING.read_text())["families"], RESULT["second sealed split"]
    assert sum(since["mutant"].values()) == sum(first["mutant"].values())
    assert since["mutant"]["found"] > first["mutant"]["found"]
    assert since["right"].get("false alarm", 0) == 0


def test_the_page_says_what_the_stored_exam_says():
    assert lint_page.block(RESULT) in read_text(lint_page.DOCS / "lint.md", lint_page.MOST_BYTES)
