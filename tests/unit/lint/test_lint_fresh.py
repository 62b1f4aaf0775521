"""The fresh list as it was written down before the rules were, and the public bugs of dependent launches."""

import json
from collections import Counter

import pytest
from lint_cases import FRESH, KINDS, PDL_BUGS, SEALED_HASH, cases, packed, sealed_sha256
from lint_exam import FRESH_SCORES, result_of, totals

BUGS = cases(PDL_BUGS)


def test_the_fresh_list_is_as_it_was_written_down():
    assert sealed_sha256(FRESH) == (FRESH / SEALED_HASH).read_text().strip()


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "key"), [(FRESH, "now"), (KINDS, "kinds")], ids=["fresh", "kinds"])
def test_a_list_is_judged_as_stored(folder, key):
    stored = json.loads(FRESH_SCORES.read_text())[key]
    assert totals([result_of(case) for case in cases(folder)])["splits"] == stored


@pytest.mark.parametrize("case", BUGS, ids=lambda case: case.name)
def test_public_bugs_of_dependent_launches_are_found_and_their_mended_twins_right(case):
    assert result_of(case).verdict == ("found" if case.fault else "right")
    assert not case.known.keys() - {"launched"}


def test_there_are_eleven_bugs_and_eleven_twins():
    assert Counter(bool(case.fault) for case in BUGS) == {True: 11, False: 11}
    assert packed(PDL_BUGS).keys() == {
        f"{case.name}.{arch}.{language}" for case in BUGS for language, arch in case.listings
    }
