"""Puzzles: right answers in other words are accepted, wrong ones that look right are refused with a hint."""

import tomllib
from pathlib import Path

import pytest

from wavesim.teaching.exercises import WrongAnswer, check
from wavesim.teaching.mending import bug, puzzle, puzzles

ANSWERS = tomllib.loads(Path(__file__).with_name("puzzle_answers.toml").read_text(encoding="utf-8"))


def cases(kind):
    for number, both in ANSWERS.items():
        for at, changes in enumerate(both[kind]):
            yield pytest.param(number, changes, id=f"{number}-{at}")


def changed(number, changes):
    text = bug(number)
    for old, new in changes:
        assert old in text, (number, old)
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(("number", "changes"), [*cases("right")])
def test_a_right_answer_in_other_words_is_accepted(number, changes):
    assert check(number, changed(number, changes)).is_right


@pytest.mark.parametrize(("number", "changes"), [*cases("wrong")])
def test_a_wrong_answer_that_looks_right_is_refused_with_a_hint(number, changes):
    with pytest.raises(WrongAnswer, match=f"{number}: ") as caught:
        check(number, changed(number, changes))
    assert "cannot be graded" not in str(caught.value)


@pytest.mark.parametrize("one", puzzles(), ids=lambda one: one.number)
def test_every_puzzle_has_its_bug_a_solution_and_answers_of_both_kinds(one):
    assert check(one.number, one.solution).is_right
    assert "is open: the program is as it was" in check(one.number, one.code).text
    with pytest.raises(WrongAnswer):
        one.grade(one.code)
    assert ANSWERS[one.number]["right"]
    assert ANSWERS[one.number]["wrong"]


def test_enough_answers_were_tried():
    for kind in ("right", "wrong"):
        assert sum(len(both[kind]) for both in ANSWERS.values()) >= 60


@pytest.mark.parametrize(
    ("number", "change", "words"),
    [
        ("23.1", lambda text: text.replace("st.weak", "fence.sc.gpu\n" * 12 + "st.weak"), "at most 4 may be"),
        ("23.17", lambda _: "a = " + "[" * 1_900, "nests more than 16 deep"),
        ("23.17", lambda text: text + "\ntokens = 4", "is unknown"),
        ("23.21", lambda _: "a = " + "[" * 1_900, "nests more than 16 deep"),
    ],
)
def test_answers_that_would_take_for_ever_or_are_no_program_are_wrong_at_once(number, change, words):
    asked = puzzle(number)
    with pytest.raises(WrongAnswer, match=words):
        asked.grade(change(asked.solution))
