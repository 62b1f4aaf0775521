"""Exercises of notebook 15: mend a wait in PTX, the scopes that serve, and how many schedulers fit."""

from typing import Any

from wavesim.errors import WavesimError
from wavesim.hang.verdict import judge
from wavesim.lint.check import findings_of
from wavesim.lint.finding import Finding
from wavesim.lint.instruction import Op
from wavesim.lint.kernel_code import KernelCode, Listing
from wavesim.lint.ptx import listing_of_ptx
from wavesim.teaching.checked_kernels import CONSUMER, known_of, named
from wavesim.teaching.exercises import Exercise, WrongAnswer, require, whole
from wavesim.teaching.hangs import SCHEDULERS, with_schedulers
from wavesim.teaching.tile_handover import READERS, TILE, handover, tiles_read

BROKEN = "tile_pair.no-acquire.WAIT-volatile"
MOST_LETTERS = 20_000
SCOPES = ("cta", "cluster", "gpu", "sys")  # from the narrowest


def broken_ptx() -> str:
    """The PTX to mend: a pair whose consumer polls by volatile loads, with no fence behind."""
    case = named(BROKEN)
    return case.text("ptx", case.archs[0])


def grade_mended(answer: Any) -> str:
    """The pair's PTX, changed so that lint finds nothing wrong; it still waits, loads and stores as much."""
    require(isinstance(answer, str), "the answer is PTX, a text such as broken.replace(..., ...).")
    require(len(answer) <= MOST_LETTERS, f"{len(answer):,} letters are more than the kernels have.")
    require(answer != broken_ptx(), "this is the broken PTX as it was; change the poll, or what follows it.")
    try:
        before, after = (listing_of_ptx(text, "answer") for text in (broken_ptx(), answer))
    except WavesimError as error:
        raise WrongAnswer(str(error)) from None
    _require_same_work(before, after)
    found = [one for one in findings_of(after, known_of(named(BROKEN))) if one.kind != "spin"]
    for verdict in ("wrong", "unknown"):
        for one in found:
            require(one.verdict != verdict, f"{verdict} in {one.kernel}: {one.why}.")
    require(
        any(one.kernel == CONSUMER and one.kind == "wait" for one in found), f"{CONSUMER} does not wait now."
    )
    return f"Nothing is wrong in it: {_why(found)}."


def _require_same_work(before: Listing, after: Listing) -> None:
    for kernel in before.kernels:
        other = next((one for one in after.kernels if one.name == kernel.name), None)
        if other is None:
            raise WrongAnswer(f"the kernel {kernel.name} is gone.")
        for op, word in ((Op.STORE, "stores"), (Op.LOAD, "loads")):
            lost = _count(kernel, op) - _count(other, op)
            require(lost <= 0, f"{kernel.name} has {lost} {word} of global memory less than before.")


def _count(kernel: KernelCode, op: Op) -> int:
    return sum(one.op is op and one.space == "global" for one in kernel.instructions)


def _why(found: list[Finding]) -> str:
    return next(one.why for one in found if one.kernel == CONSUMER and one.kind == "wait")


def grade_scopes(answer: Any) -> str:
    """The narrowest scope of release and acquire for each place of the reader: a dictionary."""
    require(
        isinstance(answer, dict) and set(answer) == set(READERS), f"give a scope to each of {set(READERS)}."
    )
    for reader, place in READERS.items():
        scope = answer[reader]
        require(scope in SCOPES, f"{scope!r} is no scope: {', '.join(SCOPES)}.")
        require(not _reads_old(scope, place), f"{reader}: with .{scope} the old tile can be read.")
        narrower = [one for one in SCOPES[: SCOPES.index(scope)] if not _reads_old(one, place)]
        require(not narrower, f"{reader}: .{scope} is safe, and a narrower scope is too.")
    return "A scope has to hold both threads; a wider one costs time, a narrower one the tile."


def _reads_old(scope: str, place: str) -> bool:
    test = handover(post=f"st.release.{scope}", poll=f"ld.acquire.{scope}", reader=place)
    return tiles_read(test) != {TILE}


def grade_schedulers(answer: Any) -> str:
    """The most scheduler blocks beside 128 workers on 148 SMs that cannot hang, whoever is placed first."""
    count = whole(answer, 1, 148)
    require(
        not judge(with_schedulers(count), with_remedies=False).can_hang, f"{count} schedulers can hang it."
    )
    more = judge(with_schedulers(count + 1), with_remedies=False)
    require(bool(more.can_hang), f"{count} cannot hang, and {count + 1} cannot either.")
    return f"128 workers and {count} {SCHEDULERS} have an SM each, in whatever order they are placed."


EXERCISES = (
    Exercise("15.1", "The broken pair's PTX, mended", grade_mended),
    Exercise("15.2", "The narrowest scope for each reader", grade_scopes),
    Exercise("15.3", "The most schedulers that cannot hang", grade_schedulers),
)
