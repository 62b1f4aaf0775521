"""The exam of lint: how it judges, what it said when it was last taken, and the corpus judged again."""

import hashlib
import json
from collections import Counter

import lint_page
import pytest
from lint_cases import FOLDER, SEALED_2, Case, cases
from lint_exam import SCORES, result_of, verdict

from wavesim.lint.finding import Finding
from wavesim.safe_io.reading import read_text

RESULT = json.loads(SCORES.read_text())
# The cases that are not judged as they should be; every other fault is found, every other right kernel right.
EXCEPTIONS = {
    **dict.fromkeys(("triton.kept_acquire_and_barrier", "triton.recorded_up"), "false alarm"),
    "cutlass.stream_k_gemm": "false alarm",
    **dict.fromkeys(("triton.scale", "triton.matmul_pdl_up", "triton.synchronised_up"), "unknown"),
    **dict.fromkeys(("arriving_copies.first-phase-only", "arriving_copies.tested-once"), "missed"),
    **dict.fromkeys(
        (
            *(
                f"pair_of_blocks.{form}"
                for form in ("right", "unjoined-put", "never-raised", "relaxed-raise")
            ),
            *("pair_of_blocks.unguarded-get", "ragged_rows.barrier-per-element"),
            *(f"warp_roles.{form}" for form in ("right", "miscounted", "barrier-in-branch")),
            *("counts_and_maxima.right", "shared_flags.right"),
        ),
        "unknown",
    ),
}
BOTH = (*cases(FOLDER), *cases(SEALED_2))


def finding(said, rule="no-acquire"):
    return Finding("kernel", "wait", rule, said, "because")


@pytest.mark.parametrize(
    ("fault", "said", "expected"),
    [
        ("no-acquire", [finding("wrong"), finding("unknown")], "found"),
        ("no-acquire", [finding("wrong", "no-release"), finding("unknown")], "misnamed"),
        ("no-acquire", [finding("right"), finding("unknown")], "unknown"),
        ("no-acquire", [], "missed"),
        ("", [finding("right"), finding("wrong")], "false alarm"),
        ("", [finding("right"), finding("unknown")], "unknown"),
        ("", [finding("right")], "right"),
    ],
)
def test_a_fault_is_found_only_by_a_rule_that_it_breaks_and_any_wrong_is_a_false_alarm(fault, said, expected):
    family = "mutant" if fault else "right"
    case = Case("made up", family, "none", (), ("sm_90a",), fault, ("no-acquire",) if fault else ())
    assert verdict(case, said) == expected


def is_sampled(case: Case) -> bool:
    """Both splits that were written without the rules' code, and a tenth of the others, which take 40 s."""
    return case.split in ("later", "sealed-2") or hashlib.sha256(case.name.encode()).digest()[1] < 26


@pytest.mark.slow
@pytest.mark.parametrize("split", ["development", "test", "later", "sealed-2"])
def test_the_corpus_is_judged_as_it_has_been(split):
    chosen = [case for case in BOTH if case.split == split and is_sampled(case)]
    assert len(chosen) >= 30
    expected = {case.name: EXCEPTIONS.get(case.name, "found" if case.fault else "right") for case in chosen}
    assert {case.name: result_of(case).verdict for case in chosen} == expected


def test_the_stored_exam_was_taken_on_the_whole_corpus_and_with_these_exceptions():
    assert not RESULT["sealed"]
    families = Counter(case.family for case in cases())
    assert {name: sum(counted.values()) for name, counted in RESULT["families"].items()} == families
    stored = [counted for counts in RESULT["families"].values() for counted in counts.items()]
    stored += [counted for counts in RESULT["second sealed split"].values() for counted in counts.items()]
    seen = Counter({word: 0 for word, _ in stored})
    for word, count in stored:
        seen[word] += count
    assert Counter(EXCEPTIONS.values()) == {
        word: count for word, count in seen.items() if word not in ("found", "right")
    }


def test_the_page_has_the_table_of_the_stored_exam():
    page = lint_page.DOCS / "records" / "lint-exam.md"
    assert lint_page.block(RESULT) in read_text(page, lint_page.MOST_BYTES)
