"""Exercise 15.1: every way to mend the pair's wait is right, and no way round the wait is."""

import pytest

from wavesim.teaching import WrongAnswer, check
from wavesim.teaching.proof import broken_ptx

BROKEN = broken_ptx()
POLL, ACQUIRE, FENCE = "ld.volatile.global.u32 \t%r3, [%rd1];", "ld.acquire.gpu", "fence.acq_rel.gpu;"
LOOP_END, BEHIND = "@%p2 bra \t$L__BB1_2;", "$L__BB1_3:\n\t.loc\t1 27 5\n\tbar.sync \t0;"
MENDED = BROKEN.replace("ld.volatile.global.u32", "ld.acquire.gpu.global.u32")

RIGHT = {
    "acquire": MENDED,
    "acquire of a wider scope": MENDED.replace(ACQUIRE, "ld.acquire.sys"),
    "acquire of a generic address": MENDED.replace("acquire.gpu.global", "acquire.gpu"),
    "fence behind the loop": BROKEN.replace(LOOP_END, f"{LOOP_END}\n\t{FENCE}"),
    "membar behind the loop": BROKEN.replace(LOOP_END, f"{LOOP_END}\n\tmembar.gl;"),
    "fence in the loop": BROKEN.replace(POLL, f"{POLL}\n\t{FENCE}"),
    "fence behind the barrier": BROKEN.replace(BEHIND, f"{BEHIND}\n\t{FENCE}"),
    "acquire once more": BROKEN.replace(LOOP_END, f"{LOOP_END}\n\t{ACQUIRE}.global.u32 %r3, [%rd1];"),
    "atomic that adds nothing": BROKEN.replace(POLL, "atom.acquire.gpu.global.add.u32 %r3, [%rd1], 0;"),
}
WRONG = {
    "acquire of the block": MENDED.replace(ACQUIRE, "ld.acquire.cta"),
    "fence before the poll": BROKEN.replace(POLL, f"{FENCE}\n\t{POLL}"),
    "fence of the block": BROKEN.replace(LOOP_END, f"{LOOP_END}\n\tfence.acq_rel.cta;"),
    "no loop": MENDED.replace(LOOP_END, ""),
    "loop without the poll": MENDED.replace("$L__BB1_2:", "").replace("\tsetp.eq", "$L__BB1_2:\n\tsetp.eq"),
    "loop turned round": MENDED.replace("setp.eq.s32 \t%p2", "setp.ne.s32 \t%p2"),
    "nobody waits": MENDED.replace("@%p1 bra \t$L__BB1_3;", "bra \t$L__BB1_3;"),
    "poll of the input": MENDED.replace("%r3, [%rd1]", "%r3, [%rd3]"),
    "poll that resets": BROKEN.replace(POLL, "atom.acquire.gpu.global.exch.b32 %r3, [%rd1], 0;"),
    "post left out": MENDED.replace("red.release.gpu.global.add.u32 [%rd9], %r5;", ""),
    "post elsewhere": MENDED.replace("[%rd9], %r5", "[%rd8], %r5"),
    "load of another place": MENDED.replace("ld.global.f32 \t%f1, [%rd9]", "ld.global.f32 \t%f1, [%rd2]"),
    "in a comment": BROKEN.replace(POLL, f"{POLL} // {ACQUIRE}"),
}


@pytest.mark.parametrize("way", RIGHT)
def test_a_mended_wait_is_right(way):
    assert RIGHT[way] != BROKEN
    assert "Nothing is wrong" in check("15.1", RIGHT[way]).text


@pytest.mark.parametrize("way", WRONG)
def test_a_way_round_the_wait_is_wrong(way):
    assert WRONG[way] not in (BROKEN, MENDED)
    with pytest.raises(WrongAnswer):
        check("15.1", WRONG[way])
