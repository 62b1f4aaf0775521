"""The quiz's questions, and the course's pages, which are made from notebooks and graders."""

import subprocess
import sys
from pathlib import Path

import pytest

from wavesim import DescriptionError
from wavesim.teaching.exercises import exercises_of
from wavesim.teaching.quiz import Quiz, questions

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("one", questions(), ids=lambda one: f"{one.notebook}-{one.key[:4]}")
def test_a_question_has_one_right_answer_and_says_why_each_other_one_is_wrong(one):
    assert one.asks.endswith(("?", "..."))
    assert sum(choice["isRight"] for choice in one.choices) == 1
    assert len({choice["says"] for choice in one.choices}) == len(one.choices) >= 3
    assert all(len(choice["why"].split()) >= 3 for choice in one.choices)


def test_a_quiz_of_a_notebook_has_its_questions_and_exercises():
    (lesson,) = Quiz(2).scene["lessons"]
    assert lesson["title"] == "Notebook 2"
    assert [one["number"] for one in lesson["exercises"]] == [one.number for one in exercises_of(2)]
    with pytest.raises(DescriptionError, match="notebook is 99; there are"):
        Quiz(99)


def test_the_course_follows_its_notebooks():
    command = [sys.executable, ROOT / "tools" / "write_course.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
