"""More order never allows more; interleavings are always allowed; fences everywhere allow nothing else."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavesim.errors import DescriptionError
from wavesim.litmus import LitmusTest, LitmusThread, Outcome, find_outcome, outcomes
from wavesim.litmus.weakening import EARLY, weakenings

PLACES = ("gpu0.cta0", "gpu0.cta0", "gpu0.cta1", "gpu1.cta0")
STORES = ("st.weak [{x}], {value}", "st.relaxed.gpu [{x}], {value}", "st.release.sys [{x}], {value}")
LOADS = ("ld.weak {r}, [{x}]", "ld.relaxed.sys {r}, [{x}]", "ld.acquire.gpu {r}, [{x}]")
ATOMICS = ("atom.acq_rel.gpu.add {r}, [{x}], {value}", "atom.relaxed.cta.exch {r}, [{x}], {value}")
FENCES = ("fence.acq_rel.gpu", "fence.sc.sys", "fence.acquire.cta", "bar.sync 0")


@st.composite
def programs(draw, accesses=(*STORES, *LOADS, *ATOMICS), fences=FENCES, most=3):
    """Threads of a few accesses of x and y, fences here and there; every store has a value of its own."""
    threads, count = [], 0
    for number in range(draw(st.integers(2, 3))):
        code = []
        for _ in range(draw(st.integers(1, most if number < 2 else 1))):
            count += 1
            text = draw(st.sampled_from(accesses))
            code.append(text.format(x=draw(st.sampled_from("xy")), r=f"r{count}", value=count))
            if fences and draw(st.booleans()):
                code.append(draw(st.sampled_from(fences)))
        threads.append(LitmusThread(f"thread {number}", draw(st.sampled_from(PLACES)), tuple(code)))
    return LitmusTest(tuple(threads), final=("x", "y"))


@settings(max_examples=40)
@given(programs(), st.data())
def test_a_fence_more_never_allows_an_outcome_more(test: LitmusTest, data):
    number = data.draw(st.integers(0, len(test.threads) - 1))
    thread = test.threads[number]
    at = data.draw(st.integers(0, len(thread.code)))
    fence = data.draw(st.sampled_from(FENCES[:3]))
    more = LitmusThread(thread.name, thread.at, (*thread.code[:at], fence, *thread.code[at:]))
    threads = (*test.threads[:number], more, *test.threads[number + 1 :])
    assert outcomes(LitmusTest(threads, final=test.final)) <= outcomes(test)


@settings(max_examples=25)
@given(programs())
def test_a_weaker_form_never_allows_less(test: LitmusTest):
    allowed = outcomes(test)
    for form in weakenings(test):
        if form.change == EARLY:  # another order, neither weaker nor stronger
            continue
        assert allowed <= outcomes(form.test), str(form)


@settings(max_examples=40)
@given(programs())
def test_every_interleaving_is_allowed(test: LitmusTest):
    assert set(interleavings(test)) <= outcomes(test)


@settings(max_examples=40)
@given(programs(accesses=("st.relaxed.sys [{x}], {value}", "ld.relaxed.sys {r}, [{x}]"), fences=(), most=2))
def test_between_fences_of_sequential_consistency_nothing_but_interleavings_is_allowed(test: LitmusTest):
    fenced = tuple(
        LitmusThread(thread.name, thread.at, tuple(s for line in thread.code for s in (line, "fence.sc.sys")))
        for thread in test.threads
    )
    assert outcomes(LitmusTest(fenced, final=test.final)) == set(interleavings(test))


def interleavings(test: LitmusTest) -> Iterator[Outcome]:
    """What running one instruction after the other, of any thread, gives; barriers wait for their block."""
    pending = [(tuple(0 for _ in test.threads), {"x": 0, "y": 0}, {})]
    while pending:
        at, memory, registers = pending.pop()
        steps = list(_steps(test, at, memory, registers))
        if not steps and all(n == len(thread.code) for n, thread in zip(at, test.threads, strict=True)):
            yield tuple(sorted({**memory, **registers}.items()))
        pending += steps


def _steps(test, at, memory, registers):
    for number, thread in enumerate(test.threads):
        if at[number] == len(thread.code):
            continue
        line = thread.code[at[number]]
        memory_, registers_, moved = dict(memory), dict(registers), {number}
        if line.startswith("bar"):
            turn = thread.code[: at[number]].count(line)
            moved = {i for i, t in enumerate(test.threads) if t.at == thread.at and t.code.count(line) > turn}
            if any(test.threads[i].code[at[i] : at[i] + 1] != (line,) for i in moved):
                continue
            if any(test.threads[i].code[: at[i]].count(line) != turn for i in moved):
                continue
        elif not line.startswith("fence"):
            _access(line, memory_, registers_)
        yield tuple(n + (i in moved) for i, n in enumerate(at)), memory_, registers_


def _access(line, memory, registers):
    variable = re.search(r"\[(\w)\]", line)[1]
    register = re.search(r"\b(r\d+)\b", line)
    value = re.search(r", (\d+)$", line)
    if register:
        registers[register[1]] = memory[variable]
    if value:
        memory[variable] = int(value[1]) + (memory[variable] if ".add" in line else 0)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("st.relaxed [x], 1", "has no scope"),
        ("ld.acquire.gpu r, x", "operands"),
        ("atom.relaxed.gpu.max r, [x], 1", "is no add, sub, exch, cas"),
        ("wait ld.acquire.gpu [x]", "does not say for what"),
        ("mov r, 1", "is not one of"),
        ("<script>", "is no instruction"),
        ("st.weak [x], " + "1" * 400, "is no instruction"),
    ],
)
def test_what_is_no_instruction_is_named_in_one_line(line, complaint):
    with pytest.raises(DescriptionError, match=complaint) as caught:
        LitmusTest((LitmusThread("t", "gpu0.cta0", (line,)),))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_place_a_register_and_too_many_instructions_are_refused():
    with pytest.raises(DescriptionError, match=r"write it like gpu0\.cta1"):
        LitmusTest((LitmusThread("t", "sm 3", ()),))
    with pytest.raises(DescriptionError, match="two loads into r"):
        LitmusTest((LitmusThread("t", "gpu0.cta0", ("ld.weak r, [x]", "ld.weak r, [y]")),))
    with pytest.raises(DescriptionError, match="executions of"):
        LitmusTest((LitmusThread("t", "gpu0.cta0", ("fence.sc.sys",) * 100),))


def test_too_many_ways_to_read_are_refused(monkeypatch):
    monkeypatch.setattr("wavesim.litmus.enumeration.MAX_CANDIDATES", 10)
    stores = tuple(LitmusThread(f"s{i}", f"gpu0.cta{i}", (f"st.weak [x], {i}",)) for i in range(3))
    loads = tuple(LitmusThread(f"l{i}", f"gpu1.cta{i}", (f"ld.weak r{i}, [x]",)) for i in range(3))
    with pytest.raises(DescriptionError, match="more than 10 ways to read"):
        outcomes(LitmusTest((*stores, *loads)))


def test_an_outcome_is_found_without_listing_all():
    test = LitmusTest(
        (
            LitmusThread("a", "gpu0.cta0", ("st.weak [x], 1", "ld.weak r, [y]")),
            LitmusThread("b", "gpu0.cta1", ("st.weak [y], 1", "ld.weak s, [x]")),
        )
    )
    assert find_outcome(test, lambda outcome: dict(outcome)["r"] == 0) in outcomes(test)
    assert find_outcome(test, lambda outcome: dict(outcome)["r"] == 2) is None
