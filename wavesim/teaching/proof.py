"""Notebook 15: a tile handed over in PTX's memory model, launches that hang, and a pair of kernels to mend.

Example: `tiles_read(handover(poll="ld.relaxed.gpu"))` is {0, 42}: the tile as it was before is allowed.
`HangAnswer(judge(hang_case("mpk-775"))).headline` says that 68 of 128 workers find room.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import wavesim.safety.hang
from wavesim.errors import WavesimError
from wavesim.lint.check import findings_of
from wavesim.lint.finding import Finding
from wavesim.lint.ptx import listing_of_ptx
from wavesim.litmus import LitmusTest, LitmusThread, outcomes
from wavesim.safe_io.annotated import typed
from wavesim.safety.hang.situation import Situation
from wavesim.safety.hang.situation_file import load_situation
from wavesim.safety.hang.verdict import judge
from wavesim.teaching.checked_kernels import CONSUMER, KNOWN, forms
from wavesim.teaching.exercises import WrongAnswer, require, word

TILE = 42
SAME_BLOCK, OTHER_BLOCK, OTHER_GPU = "gpu0.cta0", "gpu0.cta1", "gpu1.cta0"
# Where the reader may be, by a word: the exercise asks for the narrowest scope that serves each.
READERS: Mapping[str, str] = {"same block": SAME_BLOCK, "other block": OTHER_BLOCK, "other GPU": OTHER_GPU}
CASES = Path(wavesim.safety.hang.__file__).parent / "cases"
MEGAKERNEL, SCHEDULERS = "mpk-775", "schedulers"
BROKEN = "tile_pair.no-acquire.WAIT-volatile"
MOST_LETTERS = 20_000
MOST_STATEMENTS = 1_000
STATEMENT_ENDS, COMMENT = re.compile(r"[;\n]"), re.compile(r"//.*|(?s:/\*.*?\*/)")
# What a mended pair may have otherwise: loads of the flag, atomics that leave it as it is, and fences.
CHANGEABLE = re.compile(
    r"(ld[.\w:]* %r3, \[%rd1\]|atom(?=[.\w:]*\.(add|or)\b)[.\w:]* %r3, \[%rd1\], 0|(fence|membar)[.\w:]*|"
    r"\.reg .*|\.loc .*)$"
)
SCOPES = ("cta", "cluster", "gpu", "sys")  # from the narrowest


@typed
def handover(
    *, post: str = "st.release.gpu", poll: str = "ld.acquire.gpu", fence: str = "", reader: str = OTHER_BLOCK
) -> LitmusTest:
    """A block stores 42 and posts; a thread at `reader` polls, fences if asked to, and reads the tile.

    Raises `DescriptionError` for instructions or places that the enumerator does not know.
    """
    producer = (f"st.weak [tile], {TILE}", f"{post} [flag], 1")
    fences = (fence,) if fence else ()
    consumer = (f"wait {poll} [flag] >= 1", *fences, "ld.weak r, [tile]")
    return LitmusTest(
        (LitmusThread("producer", SAME_BLOCK, producer), LitmusThread("consumer", reader, consumer))
    )


@typed
def tiles_read(test: LitmusTest) -> set[int]:
    """What the consumer's register may hold in the end: 0 is the tile before it was written."""
    return {dict(outcome)["r"] for outcome in outcomes(test)}


@typed
def hang_case(name: str) -> Situation:
    """A case by the name of its file. Raises `RecordingError` for one that is not there."""
    return load_situation(CASES / f"{name}.toml")


@typed
def with_schedulers(count: int) -> Situation:
    """The megakernel's launches with as many blocks of schedulers."""
    found = hang_case(MEGAKERNEL)
    changed = {SCHEDULERS: count}
    operations = [replace(op, blocks=changed.get(op.name, op.blocks)) for op in found.operations]
    return replace(found, operations=operations)


def broken_ptx() -> str:
    """The PTX to mend: a pair whose consumer polls by volatile loads, with no fence behind."""
    return forms()[BROKEN]["ptx"]


def _grade_mended(answer: Any) -> str:
    """The pair's PTX with another poll, or with fences, so that lint finds nothing wrong."""
    require(isinstance(answer, str), "the answer is PTX, a text such as broken.replace(..., ...).")
    require(len(answer) <= MOST_LETTERS, f"{len(answer):,} letters are more than the kernels have.")
    require(answer != broken_ptx(), "this is the broken PTX as it was; change the poll, or what follows it.")
    try:
        after = listing_of_ptx(answer, "answer")
    except WavesimError as error:
        raise WrongAnswer(str(error)) from None
    _require_same_work(answer)
    found = [one for one in findings_of(after, KNOWN) if one.kind != "spin"]
    for verdict in ("wrong", "unknown"):
        for one in found:
            require(one.verdict != verdict, f"{verdict} in {one.kernel}: {one.why}.")
    require(
        any(one.kernel == CONSUMER and one.kind == "wait" for one in found), f"{CONSUMER} does not wait now."
    )
    return f"Nothing is wrong in it: {_why(found)}."


def _require_same_work(answer: str) -> None:
    """Everything but polls of the flag and fences stands where it stood."""
    before, after = _others(broken_ptx()), _others(answer)
    require(len(after) <= MOST_STATEMENTS, f"{len(after):,} statements are more than the kernels have.")
    for old, new in zip_longest(before, after, fillvalue="nothing"):
        require(
            old == new,
            f"{new!r} stands where {old!r} stood. Change the poll and its order, or add a fence; what the "
            "kernels compute, and when they go on, is right.",
        )


def _others(ptx: str) -> list[str]:
    """Statements and labels without polls of the flag, fences, declarations of registers and source lines."""
    pieces = (" ".join(piece.split()) for piece in STATEMENT_ENDS.split(COMMENT.sub("", ptx)))
    return [piece for piece in pieces if piece and not CHANGEABLE.match(piece)]


def _why(found: list[Finding]) -> str:
    return next(one.why for one in found if one.kernel == CONSUMER and one.kind == "wait")


def _grade_scopes(answer: Any) -> str:
    """The narrowest scope of release and acquire for each place of the reader: a dictionary."""
    require(
        isinstance(answer, dict) and set(answer) == set(READERS), f"give a scope to each of {set(READERS)}."
    )
    for reader, place in READERS.items():
        given = answer[reader]
        scope = word(given.lstrip(".") if isinstance(given, str) else given, SCOPES)
        require(not _reads_old(scope, place), f"{reader}: with .{scope} the old tile can be read.")
        narrower = [one for one in SCOPES[: SCOPES.index(scope)] if not _reads_old(one, place)]
        require(not narrower, f"{reader}: .{scope} is safe, and a narrower scope is too.")
    return "A scope has to hold both threads; a wider one costs time, a narrower one the tile."


def _reads_old(scope: str, place: str) -> bool:
    test = handover(post=f"st.release.{scope}", poll=f"ld.acquire.{scope}", reader=place)
    return tiles_read(test) != {TILE}


def _schedulers(count: int) -> dict[str, Any]:
    """Whether so many scheduler blocks, or one more, beside 128 workers on 148 SMs cannot hang."""
    now, more = (judge(with_schedulers(blocks), with_remedies=False) for blocks in (count, count + 1))
    return {"cannot_hang": not now.can_hang, "are_most": bool(more.can_hang), "more": count + 1}


GRADERS = {"15.1": _grade_mended, "15.2": _grade_scopes, "15.3": _schedulers}
