"""Every exercise takes its solution, refuses wrong answers with a hint, and leaves an open one open."""

import runpy
from pathlib import Path
from typing import Any

import pytest
from wrong_lab_answers import WRONG_LAB_ANSWERS

from wavesim import (
    ColumnMajor,
    CustomPolicy,
    Dependency,
    DescriptionError,
    Grouped,
    RowMajor,
    RowSync,
    SemaphoreSync,
    StreamSync,
    TileSync,
    x,
    y,
)
from wavesim.sim.streams.program import RecordEvent, SynchronizeDevice, WaitEvent
from wavesim.teaching import WrongAnswer, check
from wavesim.teaching.exercises import LESSONS, exercise, exercises_of
from wavesim.teaching.generator import tall_pair
from wavesim.teaching.litmus import fence, load, post, store, wait
from wavesim.teaching.mending import puzzles
from wavesim.teaching.proof import broken_ptx
from wavesim.teaching.stream_programs import CONSUME, EXTRA, PRODUCE

ROOT = Path(__file__).parents[3]
SOLUTIONS = {
    number: answer
    for path in sorted((ROOT / "solutions").glob("s*.py"))
    for number, answer in runpy.run_path(str(path))["ANSWERS"].items()
}
NUMBERS = [one.number for lesson in LESSONS for one in exercises_of(lesson)]
FIRST, TALL = tall_pair()
STORE, LOAD = store("tile", 42), load("read", "tile")
POST, WAIT = post("semaphore", release=False), wait("semaphore", 1, acquire=False)
PAIR = str(SOLUTIONS["12.2"])
BROKEN = broken_ptx()


def policy(semaphore: Any, value: int) -> CustomPolicy:
    return CustomPolicy("mine", semaphore, lambda x, y, grid: value)


WRONG: dict[str, list[tuple[Any, str]]] = {
    "1.1": [((3, 3), "one stream"), ((4, 2.4), "semaphores"), (4, "two values")],
    "1.2": [(4, "waves"), (5, "waves"), (7, "between"), (2.5, "whole")],
    "1.3": [(2048, "nearly full"), (1280, "nearly full"), (999, "none of")],
    "2.1": [(132, "one block per SM"), (396, "fit on each")],
    "2.2": [(233_472 // 3, "only 2"), (70_000, "leave room"), (300_000, "no block")],
    "2.3": [(170 * 1024, "no level"), (164 * 1024, "together"), (228 * 1024, "smaller level")],
    "3.1": [(0, "none has started"), (576, "whole rows"), (264, "whole rows")],
    "3.2": [(13.2, "work itself"), (82.7, "work itself"), ("17", "not a number")],
    "3.3": [(1024, "last wave"), (1000, "multiple"), (8192, "between")],
    "4.1": [(5, "what is left"), (3, "what is left"), (13, "between")],
    "4.2": [
        (SemaphoreSync(TileSync(), wait_kernel=False), "can deadlock"),
        (SemaphoreSync(RowSync(), order=ColumnMajor()), "4 waves"),
        (StreamSync(), "3 are possible"),
        ("wait_kernel", "give a plan"),
    ],
    "4.3": [(6, "can deadlock"), (12, "one fewer")],
    "5.1": [(1, "can read"), (0, "can read"), (3, "for ever")],
    "5.2": [
        ({(1, 2), (10, 2), (10, 20)}, "1 outcome"),
        ({(10, 1)}, "cannot happen"),
        ({(2, 1), (20, 10)}, "comes first"),
        (4, "set of pairs"),
    ],
    "5.3": [
        (([STORE, POST], [WAIT, LOAD]), "read 0"),
        (([STORE, fence(), POST], [WAIT, LOAD]), "read 0"),
        (([STORE, POST], [WAIT, fence(), LOAD]), "read 0"),
        (([POST, fence(), STORE], [WAIT, fence(), LOAD]), "read 0"),
        (([STORE], [WAIT, fence(), LOAD]), "never ends"),
        (([STORE, post("semaphore", release=True)], [WAIT, fence(), LOAD]), "relaxed"),
        (([STORE, fence(), POST], [WAIT]), "must load"),
        (([STORE, fence(), POST], [STORE, LOAD]), "the consumer must still"),
        (([STORE, fence(), store("semaphore", 1)], [WAIT, fence(), LOAD]), "the producer must still"),
        (([fence(), STORE, fence(), POST, fence()], [fence(), WAIT, fence(), LOAD, fence()]), "6 fences"),
    ],
    "6.1": [((24, 192), "grouped:8"), ((192, 185), "row"), ((24, 24), "grouped:8")],
    "6.2": [(RowMajor(), "MB"), (Grouped(8), "too late"), (ColumnMajor(), "too late"), ("row", "no order")],
    "7.1": [
        (policy(lambda x, y, grid: y, 24), "two per row"),
        (policy(lambda x, y, grid: 2 * y + x % 2, 12), "halves"),
        (policy(lambda x, y, grid: 2 * y + x // 12, 24), "waits for ever"),
        (policy(lambda x, y, grid: 2 * y + x // 12, 1), "before it is written"),
    ],
    "7.2": [
        (RowSync(), "must share"),
        (TileSync(), "must share"),
        (policy(lambda x, y, grid: 12 * y + x // 3, 3), "must share"),
    ],
    "7.3": [
        (RowSync(), "points predicted"),
        (TileSync(), "at most 12"),
        (policy(lambda x, y, grid: 99, 1), "semaphore"),
    ],
    "8.1": [
        (Dependency(TALL[x, y], [FIRST[:, y]]), "would not wait"),
        (Dependency(TALL[x, y], [FIRST[:, 2 * y]]), "would not wait"),
        (Dependency(TALL[x, y], [FIRST[:, :]]), "does not read"),
        ("gemm1[:, 2y]", "no dependency"),
    ],
    "8.2": [((5, 24), "value 24"), ((6, 12), "semaphore 6")],
    "9.1": [(1, "73 %"), (2, "73 %"), (3, "73 %"), (7, "between")],
    "9.2": [(384, "whole tiles"), (279, "equal shares"), (0, "between")],
    "10.1": [((5, 3.6), "printed"), ((5, 4.8), "blocks"), ((6, 5), "over")],
    "10.2": [(2.4, "2.4"), (4, "no tile is cut")],
    "10.3": [
        ((512, "row"), "points off"),
        ((3072, "row"), "points off"),
        ((64, "tile"), "no point"),
    ],
    "11.1": [("waiting", "another"), ("tile cycles", "+1.1 µs"), ("slower tiles", "none of")],
    "11.2": [(-2.3, "gain in time"), (-4.6, "gain in cycles"), (0, "less that in cycles")],
    "13.1": [
        ((3, 16), "whole row"),
        ((9, 16), "one per tile row"),
        ((5, 24), "posts once"),
        (5, "two values"),
    ],
    "13.2": [(1000, "waves"), (1536, "waves"), (1408, "waves"), (9000, "between")],
    "14.2": [
        ((25.2, 88.1), "of two GPUs"),
        ((50.3, 50.3), "of eight GPUs"),
        (50.3, "two values"),
        (("many", 88), "not a number"),
    ],
    "14.3": [
        ((8, 132), "writing blocks carry less"),
        ((132, 132), "are enough"),
        ((16, 32), "reading blocks carry less"),
        ((16, 1000), "between"),
    ],
    "14.1": [(2.9, "which is the shorter"), (1.0, "nothing hidden"), (1.3, "At best only")],
    "14.4": [
        ("stores:8", "490 are possible"),
        ("sequence", "490 are possible"),
        ("nccl", "known are"),
        (8, "is not a way"),
    ],
    "15.1": [
        (BROKEN, "as it was"),
        (BROKEN.replace("ld.volatile", "ld.relaxed.gpu"), "sees the flag without acquire"),
        (BROKEN.replace("ld.volatile", "ld.acquire.cta"), "scope"),
        (BROKEN.replace("\tld.global.f32 \t%f1, [%rd9];\n", ""), "stands where"),
        (BROKEN[: BROKEN.index(".visible .entry consume")], "stands where"),
        ("mend it", "not PTX"),
        (BROKEN * 20, "letters"),
        (12, "a text"),
    ],
    "15.2": [
        ({"same block": "gpu", "other block": "gpu", "other GPU": "sys"}, "a narrower scope is too"),
        ({"same block": "cta", "other block": "cluster", "other GPU": "sys"}, "old tile can be read"),
        ({"same block": "cta", "other block": "gpu", "other GPU": "gpu"}, "old tile can be read"),
        ({"same block": "cta", "other block": "gpu", "other GPU": "system"}, "none of"),
        ("gpu", "a scope to each"),
    ],
    "15.3": [(21, "can hang"), (68, "can hang"), (19, "20 cannot either"), (0, "between"), (2.5, "whole")],
    "16.1": [((3, 3), "the mask lets it see"), ((2, 9), "the mask lets it see"), (9, "two values")],
    "16.2": [((7, 6), "four SMs"), ((6, 8), "which rows are whole"), (6, "two values")],
    "17.1": [
        (1, "try more"),
        (4, "try more"),
        (5, "try more"),
        (16, "try fewer"),
        (32, "try fewer"),
        (64, "between"),
    ],
    "17.2": [(300, "three queues"), (900, "one stream"), (800, "leaves"), (500, "leaves"), (2.5, "whole")],
    "17.3": [
        ("a0 b0 k0 c0 a1 b1 k1 c1", "takes 900 µs, and 700"),
        (["a1", "b1", "k1", "c1", "a0", "b0", "k0", "c0"], "takes 900 µs"),
        ("a0 b0 k0 c0 a1 b1 c1 k1", "needs both copies"),
        ("a0 k0 b0 c0 a1 b1 k1 c1", "needs both copies"),
        ("a0 b0 k0 c0", "each of"),
        ([0, 1], "not all names"),
        (8, "list of names"),
    ],
    "17.4": [
        (set(), "k2 starts at 400 µs"),
        ({"s1"}, "log does not wait"),
        ({"s1", "s2"}, "log does not wait"),
        ("log", "the streams are s1 and s2"),
        (2, "list of names"),
    ],
    "17.5": [
        ([PRODUCE, EXTRA, CONSUME], "consume starts at 0 µs"),
        ([PRODUCE, EXTRA, RecordEvent("e", "a"), WaitEvent("e", "b"), CONSUME], "waits for extra too"),
        ([WaitEvent("e", "b"), PRODUCE, RecordEvent("e", "a"), EXTRA, CONSUME], "has not been recorded"),
        ([PRODUCE, RecordEvent("e", "a"), EXTRA, WaitEvent("f", "b"), CONSUME], "has not been recorded"),
        ([PRODUCE, RecordEvent("e", "b"), EXTRA, WaitEvent("e", "b"), CONSUME], "consume starts at 0 µs"),
        ([PRODUCE, RecordEvent("e", "a"), EXTRA, CONSUME, WaitEvent("e", "b")], "consume starts at 0 µs"),
        ([PRODUCE, SynchronizeDevice(), EXTRA, CONSUME], "only RecordEvent and WaitEvent"),
        ([PRODUCE, RecordEvent("e", "a"), WaitEvent("e", "b"), CONSUME], "extra has to be launched once"),
        ([EXTRA, PRODUCE, RecordEvent("e", "a"), WaitEvent("e", "b"), CONSUME], "produce comes before extra"),
        ("PRODUCE", "a list of calls"),
    ],
    "18.1": [
        ((1, 1, 1, 5, 1, 1, 1, 5), "7 units"),
        ((1, 1, 1, 1, 5, 5, 1, 1), "6 units"),
        ((5, 1, 1, 1, 1, 1, 1, 5), "begin late"),
        ((5, 5), "same eight"),
        ((5, 5, 1, 1, 1, 1, 1, 2), "same eight"),
        ("55111111", "no list"),
        (8, "no list"),
    ],
    "18.2": [
        ((160, 164), "without the pipeline"),
        ((800, 160), "come out"),
        ((800, 165), "come out"),
        ((164, 800), "without the pipeline"),
        (800, "two values"),
    ],
    "18.3": [
        (1080, "still gain"),
        (800, "still gain"),
        (1500, "the faster"),
        (10_000, "the faster"),
        (-1, "between"),
        (1418.5, "whole"),
    ],
    "18.4": [
        ((64, 0), "42 blocks of R"),
        ((64, 42), "42 blocks of R"),
        ((96, 0), "an SM that has"),
        ((96, 28), "an SM that has"),
        ((128, 0), "too long by itself"),
        ((72, 0), "an SM that has"),
        ((90, 0), "in eights"),
        ((96, 50), "between 0 and 49"),
        ((4, 0), "between 8"),
        (96, "two values"),
    ],
    "24.1": [((60.8, 27.6), "two bytes"), ((121.6, 27_600), "per microsecond"), (121.6, "two values")],
    "24.2": [((28.6, 18), "seven kernels"), ((4.1, 126), "as a boundary lasts")],
    "24.3": [(36, "0.0 µs"), (67, "0.9 µs"), (160, "3.7 µs"), ("many", "number")],
    "24.4": [((11, 9), "0.5B's 17.5"), ((57, 2), "8B's 113.8")],
    "25.1": [((4, 3), "a rest takes a block"), ((5, 4), "has a row")],
    "25.2": [((6, 8), "that is begun"), ((7, 7.64), "whole")],
    "25.3": [((5, 5), "in this order"), ((7, 7), "the longest first")],
    "25.4": [((1536, 2048), "for a down tile"), ((12, 16), "for the sum")],
    "25.5": [(50, "above zero"), (120, "more than all"), (-1, "above zero")],
    **WRONG_LAB_ANSWERS,
    "12.1": [(6.2, "ms"), (0.005, "ms")],
    "12.2": [
        (PAIR.replace("[48, 8]", "[24, 8]"), "384"),
        (PAIR.replace("gemm1[:, y]", "gemm1[x, y]"), "x"),
        (PAIR.replace("gemm1[:, y]", "gemm1[0, y]"), "read by nobody"),
        (PAIR.partition("[[dependencies]]")[0], "dependencies"),
        (PAIR.replace("gemm1[:, y]", "gemm1[:, 7 - y]"), "of its row"),
        (PAIR.replace("[24, 8]", "[8, 24]"), "gemm1: grid"),
        (PAIR.replace("232", "32", 1), "gemm1: registers is 32"),
        (PAIR.replace("235.0", "1"), "gemm2: kernel_us is 1.0"),
        (PAIR.replace("h200", "h100"), "the device is"),
        (12, "text"),
    ],
}


def test_every_notebook_with_graders_has_exercises_solutions_and_wrong_answers():
    mended = {one.number for one in puzzles()}  # whose answers are in puzzle_answers.toml
    assert set(NUMBERS) == set(SOLUTIONS) == set(WRONG) | mended
    assert all(len(exercises_of(lesson)) >= 2 for lesson in LESSONS)
    assert len(set(NUMBERS)) == len(NUMBERS)


@pytest.mark.slow
@pytest.mark.parametrize("number", NUMBERS)
def test_a_solution_is_right_and_is_told_why(number):
    feedback = check(number, SOLUTIONS[number])
    assert feedback.is_right
    assert feedback.text.startswith(f"{number}: right. ")
    assert len(feedback.text) > len(f"{number}: right. ") + 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "answer", "hint"), [(n, *case) for n, cases in WRONG.items() for case in cases]
)
def test_a_wrong_answer_fails_with_its_hint(number, answer, hint):
    with pytest.raises(WrongAnswer, match=f"^{number}: ") as caught:
        check(number, answer)
    assert hint in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("number", NUMBERS)
def test_nonsense_is_a_wrong_answer_and_no_crash(number):
    for nonsense in (object(), "?", -1, [], (None, None, None), float("nan")):
        with pytest.raises(WrongAnswer):
            check(number, nonsense)


@pytest.mark.parametrize("number", NUMBERS)
def test_an_open_exercise_does_not_fail_and_is_not_right(number):
    for missing in (..., None, (..., ...)):
        feedback = check(number, missing)
        assert not feedback.is_right
        assert "open" in repr(feedback)


def test_several_answers_can_be_right():
    for number, answer in [
        ("1.2", 3),
        ("3.3", 2816),
        ("6.2", Grouped(5)),
        ("7.3", policy(lambda x, y, grid: x // 2, 12)),
        ("17.1", 7),
        ("17.3", "a0, a1, b0, b1, k0, k1, c0, c1"),
        ("17.4", ["s2"]),
        ("17.4", "s2"),
        ("21.5", ("Grid", 8)),
        ("17.5", (PRODUCE, RecordEvent("x", "a"), WaitEvent("x", "b"), CONSUME, EXTRA)),
    ]:
        assert check(number, answer).is_right


def test_a_hint_does_not_give_the_solution_away():
    for number in ("1.3", "2.2", "3.1", "4.1", "5.1", "8.2"):
        for answer, _ in WRONG[number]:
            with pytest.raises(WrongAnswer) as caught:
                check(number, answer)
            solution = SOLUTIONS[number]
            assert f" {solution} " not in f" {str(caught.value).replace('.', ' ').replace(',', '')} "


def test_an_unknown_exercise_is_named_with_those_there_are():
    for number in ("1.9", "99.1", "x"):
        with pytest.raises(DescriptionError, match="there are"):
            exercise(number)


def test_numbers_of_a_pair_may_stand_in_quotes():
    assert check("1.1", ("4", "3")).is_right
    with pytest.raises(WrongAnswer, match="5 waves on one stream"):
        check("1.1", ("5", 3))


def test_a_number_of_chunks_that_is_nearly_best_is_told_the_best():
    assert "within 1 % of the least" in check("17.1", 7).text
    assert "within" not in check("17.1", 8).text
    with pytest.raises(WrongAnswer, match="in 1 it takes"):
        check("17.1", 1)
