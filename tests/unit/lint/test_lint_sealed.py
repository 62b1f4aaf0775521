"""The second sealed split of lint's corpus: as it was sealed, and as it was opened."""

import json
from collections import Counter

import lint_exam
from lint_cases import SEALED_2, SEALED_HASH, cases, packed, sealed_sha256
from lint_exam import OPENING

SEALED = cases(SEALED_2)
SHA256 = (SEALED_2 / SEALED_HASH).read_text().strip()


def test_the_split_is_as_it_was_sealed():
    assert sealed_sha256() == SHA256
    assert packed(SEALED_2).keys() == {
        f"{case.name}.{arch}.{language}" for case in SEALED for language, arch in case.listings
    }


def test_what_was_kept_at_the_opening_was_said_of_the_split_as_sealed():
    opened = json.loads(OPENING.read_text())
    assert opened["sha256"] == SHA256
    assert [entry["case"] for entry in opened["cases"]] == [case.name for case in SEALED]
    said = Counter(entry["verdict"] for entry in opened["cases"])
    assert said == sum((Counter(counted) for counted in opened["families"].values()), Counter())


def test_the_opening_is_written_once(capsys):
    kept = OPENING.read_bytes()
    assert lint_exam.main(["--sealed-2", "--write"]) == 2
    assert "was opened once" in capsys.readouterr().err
    assert OPENING.read_bytes() == kept
