"""Exercises of notebook 15: mend a wait in PTX, the scopes that serve, and how many schedulers fit."""

import re
from itertools import zip_longest
from typing import Any

from wavesim.errors import WavesimError
from wavesim.lint.check import findings_of
from wavesim.lint.finding import Finding
from wavesim.lint.ptx import listing_of_ptx
from wavesim.safety.hang.verdict import judge
from wavesim.teaching.checked_kernels import CONSUMER, KNOWN, forms
from wavesim.teaching.exercises import Exercise, WrongAnswer, require, whole, word
from wavesim.teaching.hangs import SCHEDULERS, with_schedulers
from wavesim.teaching.tile_handover import READERS, TILE, handover, tiles_read

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


def broken_ptx() -> str:
    """The PTX to mend: a pair whose consumer polls by volatile loads, with no fence behind."""
    return forms()[BROKEN]["ptx"]


def grade_mended(answer: Any) -> str:
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


def grade_scopes(answer: Any) -> str:
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
