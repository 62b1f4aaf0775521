"""Weaker forms of a litmus test: each order, scope, fence, barrier and wait taken away or weakened by one
step.

Example: of message passing there are the post without release, the post with block scope only, the wait
without acquire, the wait that does not wait, the post before the store, and so on. Where a bad outcome
appears in one of them, what it lacks is needed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from wavesim.litmus.program import LitmusTest, LitmusThread, Statement, destination

_NARROWER = {"sys": "gpu", "gpu": "cluster", "cluster": "cta"}
_WEAKER = {"acquire": ("relaxed",), "release": ("relaxed",), "relaxed": ("weak",)}
_WEAKER_ATOMIC = {**_WEAKER, "acq_rel": ("acquire", "release"), "relaxed": ()}
DROPPED, UNAWAITED, EARLY = "dropped", "does not wait", "before the line above"


@dataclass(frozen=True)
class Weakening:
    """A test with one thing weaker. `thread`: whose, or of which block; `change`: what it has become."""

    thread: str
    text: str
    change: str
    test: LitmusTest

    def __str__(self) -> str:
        where = f"{self.thread}: " if self.thread else ""
        arrow = " " if self.change == DROPPED else " -> "
        return f"{where}{self.text}{arrow}{self.change}"


def weakenings(test: LitmusTest) -> Iterator[Weakening]:
    """Every form with one thing weaker, in the order of the test's text."""
    met: set[tuple[object, ...]] = set()
    for number, thread in enumerate(test.threads):
        if thread.after:
            waited = f"behind {', '.join(thread.after)}"
            yield Weakening(thread.name, waited, DROPPED, _with(test, {number: replace(thread, after=())}))
        turns: dict[str, int] = {}
        for at, statement in enumerate(thread.statements):
            name = _barrier(statement)
            is_wait = statement.what == "barrier" and "wait" in statement.suffixes
            turn = turns[name] = turns.get(name, 0) + (not is_wait)
            if statement.what in ("bar", "barrier"):
                place = thread.place[: 2 if statement.what == "barrier" else 3]
                if (place, name, turn) not in met:
                    met.add((place, name, turn))
                    where = thread.at.rpartition(".")[0] if statement.what == "barrier" else thread.at
                    weaker = _without_meeting(test, place, name, turn)
                    yield Weakening(where, _shown(statement.text, turn), DROPPED, weaker)
                continue
            for change, line in _weaker(statement):
                code = (*thread.code[:at], *line, *thread.code[at + 1 :])
                weaker = _with(test, {number: replace(thread, code=code)})
                yield Weakening(thread.name, _shown(statement.text, turn), change, weaker)
            if _publishes_what_is_above(thread, at):
                code = (*thread.code[: at - 1], thread.code[at], thread.code[at - 1], *thread.code[at + 1 :])
                early = _with(test, {number: replace(thread, code=code)})
                yield Weakening(thread.name, _shown(statement.text, turn), EARLY, early)


def _publishes_what_is_above(thread: LitmusThread, at: int) -> bool:
    """Whether it is a release with a line above it that does not decide whether it is done."""
    statement = thread.statements[at]
    is_release = statement.order in ("release", "acq_rel") and statement.what != "fence"
    decided_by = statement.guard[0] if statement.guard else ""
    return is_release and at > 0 and not (decided_by and destination(thread.statements[at - 1]) == decided_by)


def _shown(text: str, turn: int) -> str:
    return text if turn == 1 else f"{text} (again)"


def _with(test: LitmusTest, threads: dict[int, LitmusThread]) -> LitmusTest:
    changed = tuple(threads.get(number, thread) for number, thread in enumerate(test.threads))
    return replace(test, threads=changed)


def _barrier(statement: Statement) -> str:
    return re.sub(r"\.(sync|arrive|wait)", "", statement.text)


def _without_meeting(test: LitmusTest, place: tuple[object, ...], name: str, turn: int) -> LitmusTest:
    threads = {}
    for number, thread in enumerate(test.threads):
        passed, kept = 0, []
        for line, statement in zip(thread.code, thread.statements, strict=True):
            is_there = statement.what in ("bar", "barrier") and _barrier(statement) == name
            is_there = is_there and thread.place[: len(place)] == place
            # Of a cluster barrier the arrival counts; the wait for it goes with it.
            passed += is_there and "wait" not in statement.suffixes
            if not (is_there and passed == turn):
                kept.append(line)
        threads[number] = replace(thread, code=tuple(kept))
    return _with(test, threads)


def _weaker(statement: Statement) -> Iterator[tuple[str, tuple[str, ...]]]:
    text = statement.text
    what, bracket, operands = text.partition(" [")
    is_grid_wait = statement.what == "griddepcontrol" and "wait" in statement.suffixes
    if statement.what == "fence" or is_grid_wait or "wait_group" in statement.suffixes:
        yield DROPPED, ()
    if {"wait_group", "bulk"} <= set(statement.suffixes) and "read" not in statement.suffixes:
        yield _both(text.replace("wait_group", "wait_group.read"))
    if statement.awaited:
        yield UNAWAITED, (re.sub(r"^(.*\]).*$", r"\1", re.sub(r"\bwait ", "", text)),)
    is_atomic = statement.what in ("atom", "red", "mbarrier")
    for order in (_WEAKER_ATOMIC if is_atomic else _WEAKER).get(statement.order, ()):
        if order == "weak":
            yield _both(re.sub(r"\.(relaxed\.\w+|volatile)", ".weak", text))
        else:
            yield _both(text.replace(f".{statement.order}", f".{order}"))
    if statement.what == "fence" and statement.order == "sc":
        yield _both(text.replace(".sc", ".acq_rel"))
    if f".{statement.scope}" in what and statement.scope in _NARROWER:
        narrower = what.replace(f".{statement.scope}", f".{_NARROWER[statement.scope]}")
        yield _both(narrower + bracket + operands)


def _both(line: str) -> tuple[str, tuple[str, ...]]:
    return line, (line,)
