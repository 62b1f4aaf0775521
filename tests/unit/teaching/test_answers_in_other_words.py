"""Right answers in other words are accepted, and clever wrong ones refused with a hint.

The answers in `answers_in_other_words.toml` were written from the notebooks' texts, before the graders were
read. The first run refused 33 of the 104 right ones and accepted 12 of the 163 wrong ones. Those of
notebooks 14, 17 and 21 came later, with their graders and from the same author. Those of
19, 20 and 22 were written before their graders were tried: 20's before they were read, 19's after a glance at
them, 22's by the graders' author. The first run refused none of the 63 right ones and accepted none of the 80
wrong ones.
"""

import tomllib
from math import ceil
from pathlib import Path

import numpy as np
import pytest

import wavesim
from wavesim.plan.order import parse_order
from wavesim.plan.parsing import parse_plan
from wavesim.sim.streams.program import RecordEvent, WaitEvent
from wavesim.teaching.exercises import LESSONS, WrongAnswer, check, exercises_of
from wavesim.teaching.generator import tall_pair
from wavesim.teaching.litmus import fence, load, post, store, wait
from wavesim.teaching.proof import broken_ptx
from wavesim.teaching.stream_programs import CONSUME, EXTRA, PRODUCE

ANSWERS = tomllib.loads(Path(__file__).with_name("answers_in_other_words.toml").read_text())
STAGE = "threads = {threads}\nregisters = {registers}\nshared_bytes = {shared}\n"
FILE = (
    'device = "{device}"\n'
    '[[stages]]\nname = "gemm1"\ngrid = {first_grid}\nkernel_us = {first_us}\n'
    + STAGE
    + '[[stages]]\nname = "gemm2"\ngrid = [48, 8]\nkernel_us = {second_us}\n'
    + STAGE
    + "{dependency}"
)
DEPENDENCY = '[[dependencies]]\nneeds = ["{needs}"]\nconsumer = "gemm2"\n'


def pair_file(needs="gemm1[:, y]", dependency=None, **changed):
    """The file that exercise 12.2 asks for, with some fields changed."""
    fields = {"device": "h200", "first_grid": "[24, 8]", "first_us": "310", "second_us": "235"}
    fields |= {"threads": "256", "registers": "232", "shared": "98304"} | changed
    reads = DEPENDENCY.format(needs=needs) if dependency is None else dependency
    return FILE.format(dependency=reads, **fields)


def inline_pair_file():
    """The same file with TOML's inline tables."""
    block = "threads = 256, registers = 232, shared_bytes = 98_304"
    return (
        f'stages = [{{name = "gemm1", grid = [24, 8], kernel_us = 310.0, {block}}},\n'
        f'  {{name = "gemm2", grid = [48, 8], kernel_us = 235.0, {block}}}]\n'
        'dependencies = [{consumer = "gemm2", needs = ["gemm1[:, y]"]}]\ndevice = "h200"\n'
    )


def names():
    """What an answer may name: wavesim's names, and those of the notebooks' cells."""
    first, tall = tall_pair()
    own = {name: getattr(wavesim, name) for name in wavesim.__all__}
    litmus = {"fence": fence, "load": load, "post": post, "store": store, "wait": wait}
    parsed = {"parse_order": parse_order, "parse_plan": parse_plan, "ceil": ceil, "np": np}
    files = {"pair_file": pair_file, "inline_pair_file": inline_pair_file, "broken": broken_ptx()}
    calls = {"RecordEvent": RecordEvent, "WaitEvent": WaitEvent}
    calls |= {"PRODUCE": PRODUCE, "EXTRA": EXTRA, "CONSUME": CONSUME}
    return own | litmus | parsed | files | calls | {"first": first, "tall": tall}


def cases(kind):
    return [(number, text) for number, both in ANSWERS.items() for text in both[kind]]


@pytest.mark.parametrize(("number", "text"), cases("right"))
def test_a_right_answer_in_other_words_is_accepted(number, text):
    assert check(number, eval(text, names())).is_right  # noqa: S307  # our own file


@pytest.mark.parametrize(("number", "text"), cases("wrong"))
def test_a_clever_wrong_answer_is_refused_with_a_hint(number, text):
    answer = eval(text, names())  # noqa: S307  # our own file
    with pytest.raises(WrongAnswer, match=f"{number}: ") as caught:
        check(number, answer)
    assert "cannot be graded" not in str(caught.value)


def test_every_exercise_has_answers_of_both_kinds():
    asked = {one.number for lesson in LESSONS for one in exercises_of(lesson)}
    assert asked >= ANSWERS.keys()
    assert all(both["right"] and both["wrong"] for both in ANSWERS.values())
