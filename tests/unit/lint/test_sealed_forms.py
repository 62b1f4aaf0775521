"""Forms of right code that lint once did not know, each with a fault that it must find there."""

import pytest

from wavesim.lint.check import findings_of
from wavesim.lint.finding import Known
from wavesim.lint.ptx import listing_of_ptx

HEAD = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u32 p4)
.maxntid 128
{
.local .align 8 .b8 kept[16];
.shared .align 4 .b8 seen[4];
.shared .align 8 .b8 bar[8];
.reg .pred %p<19>;
.reg .b32 %r<29>;
.reg .f32 %f<9>;
.reg .b64 %rd<29>;
ld.param.u64 %rd1, [p0];
ld.param.u64 %rd2, [p1];
ld.param.u64 %rd3, [p2];
ld.param.u64 %rd4, [p3];
ld.param.u32 %r9, [p4];
mov.u32 %r1, %tid.x;
setp.ne.s32 %p1, %r1, 0;
mul.wide.u32 %rd9, %r1, 4;
add.s64 %rd5, %rd1, %rd9;
add.s64 %rd6, %rd2, %rd9;
"""
FENCE = "fence.acq_rel.gpu;\n"
BARRIER = "bar.sync 0;\n"
READ = "ld.global.f32 %f1, [%rd5];\n"
STORE = "st.global.f32 [%rd6], %f1;\n"
SPIN = (
    "@%p1 bra AFTER;\nSPIN:\nld.acquire.gpu.global.u32 %r2, [%rd3];\nsetp.eq.u32 %p2, %r2, 0;\n"
    "@%p2 bra SPIN;\nAFTER:\n"
)
RAISE = "@%p1 bra DONE;\nred.release.gpu.global.add.u32 [%rd3], 1;\nDONE:\n"
# A block of one warp: its lanes' barrier is the block's.
WARP = f"{SPIN}bar.warp.sync -1;\n{READ}{STORE}bar.warp.sync -1;\n{RAISE}"
# The spin is the first thing in a turn of the loop around it.
AT_ONCE = (
    "mov.u32 %r5, 0;\nTURN:\nld.acquire.gpu.global.u32 %r2, [%rd3];\nsetp.le.u32 %p2, %r2, %r5;\n"
    f"@%p2 bra TURN;\n{READ}{STORE}add.s32 %r5, %r5, 1;\nsetp.lt.u32 %p3, %r5, %r9;\n@%p3 bra TURN;\n"
)
# A grid's barrier, whose phase is the top bit of what the arrival returns.
PHASE = (
    f"{STORE}{BARRIER}@%p1 bra AFTER;\n{FENCE}atom.global.add.u32 %r3, [%rd3], %r9;\nSPIN:\n"
    "ld.volatile.global.u32 %r2, [%rd3];\nxor.b32 %r4, %r2, %r3;\nsetp.ge.s32 %p2, %r4, 0;\n@%p2 bra SPIN;\n"
    f"{FENCE}AFTER:\n{BARRIER}ld.global.f32 %f2, [%rd6+512];\n"
)
# One thread's turn at a slot: the word that it polls and that it stores a number to.
SLOT = (
    "@%p1 bra END;\natom.relaxed.gpu.global.add.u32 %r3, [%rd4], 1;\nmul.wide.u32 %rd7, %r3, 4;\n"
    "add.s64 %rd8, %rd3, %rd7;\nSPIN:\nld.acquire.gpu.global.u32 %r2, [%rd8];\nsetp.ne.u32 %p2, %r2, %r3;\n"
    "@%p2 bra SPIN;\nst.global.f32 [%rd2], %f1;\nadd.s32 %r4, %r3, 1;\n"
    "st.release.gpu.global.u32 [%rd8], %r4;\nEND:\n"
)
# Who passes last sets the counters back; what the others read they have acquired before.
PASSED = (
    SPIN.replace("AFTER:\n", "")
    + "atom.global.add.u32 %r3, [%rd4], 1;\nsetp.ne.u32 %p3, %r3, %r9;\n@%p3 bra AFTER;\n"
    + f"atom.global.exch.b32 %r4, [%rd4], 0;\nAFTER:\n{BARRIER}{READ}{STORE}"
)
# The thread that polls leaves what it saw in shared memory, and all threads test it.
BY_ALL = (
    "setp.eq.s32 %p5, %r1, 0;\nTURN:\nmov.u32 %r2, 0;\n"
    "@%p5 atom.global.gpu.acquire.cas.b32 %r2, [%rd3], 1, 1;\n"
    f"@%p5 st.shared.b32 [seen], %r2;\n{BARRIER}ld.shared.b32 %r3, [seen];\n{BARRIER}"
    f"setp.ne.s32 %p3, %r3, 1;\n@%p3 bra TURN;\n{READ}{STORE}"
)
WAITED = f"griddepcontrol.wait;\n{READ}{STORE}"
SOME_WAIT = f"setp.lt.u32 %p3, %r9, 512;\n@%p3 bra GO;\ngriddepcontrol.wait;\nGO:\n{READ}{STORE}"
ONE_WAITS = f"@%p1 bra GO;\ngriddepcontrol.wait;\nGO:\n{READ}{BARRIER}{STORE}"
# Polled by an ordinary load: what the compiler leaves of it.
ONCE = (
    "ld.global.u32 %r2, [%rd3];\nsetp.ne.u32 %p2, %r2, 0;\n@%p2 bra OUT;\nFOR_EVER:\nbra.uni FOR_EVER;\n"
    f"OUT:\n{FENCE}{READ}"
)
POLLED = (
    f"POLL:\nld.volatile.global.u32 %r2, [%rd3];\nsetp.eq.u32 %p2, %r2, 0;\n@%p2 bra POLL;\n{FENCE}{READ}"
)
# Pointers to other GPUs' flags in an array of the thread's own.
RANKS = (
    f"{STORE}{BARRIER}st.local.u64 [kept], %rd3;\nst.local.u64 [kept+8], %rd4;\nmov.u64 %rd10, kept;\n"
    "mul.wide.u32 %rd11, %r9, 8;\nadd.s64 %rd12, %rd10, %rd11;\nld.local.u64 %rd13, [%rd12];\n"
    "@%p1 bra DONE;\nst.release.sys.global.u32 [%rd13], 1;\nDONE:\n"
)
# A token names the phase that its arrival belongs to.
ARRIVAL = (
    "mov.u32 %r5, 0;\nTURN:\nmbarrier.arrive.shared.b64 %rd10, [bar];\nTRY:\n"
    "mbarrier.test_wait.shared.b64 %p3, [bar], %rd10;\n@!%p3 bra TRY;\nadd.s32 %r5, %r5, 1;\n"
    "setp.lt.u32 %p4, %r5, %r9;\n@%p4 bra TURN;\n"
)
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4;\n"
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [bar];\n"
SENT = (
    f"{EXPECT}st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r6], %r7, [%r8];\n"
    "mov.u32 %r5, 0;\nTRY:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], %r5;\n@!%p3 bra TRY;\n"
)
# Two tiles of copies: the last is drained behind the loop.
COPY = "cp.async.ca.shared.global [%r6], [%rd5], 4;\ncp.async.commit_group;\n"
READ_COPY = f"{BARRIER}ld.shared.f32 %f1, [seen];\n"
DRAINED = (
    f"{COPY}mov.u32 %r5, 0;\nTURN:\n{COPY}cp.async.wait_group 1;\n{READ_COPY}{BARRIER}add.s32 %r5, %r5, 1;\n"
    f"setp.lt.u32 %p4, %r5, %r9;\n@%p4 bra TURN;\ncp.async.wait_group 0;\n{READ_COPY}{STORE}"
)
# A tile's sum and then its prefix are announced, in two arrays of which others read either.
ANNOUNCE = "st.volatile.global.u32 [%rd3], 2;\n"
PREFIX = "st.global.f32 [%rd2], %f2;\n"
TWO_ARRAYS = (
    f"@%p1 bra END;\nst.global.f32 [%rd1], %f1;\n{FENCE}st.volatile.global.u32 [%rd3], 1;\nSPIN:\n"
    f"ld.volatile.global.u32 %r2, [%rd3+4];\nsetp.eq.u32 %p2, %r2, 0;\n@%p2 bra SPIN;\n{FENCE}"
    "ld.global.f32 %f3, [%rd1+4];\nld.global.f32 %f4, [%rd2+4];\nadd.f32 %f2, %f3, %f4;\n"
    f"{PREFIX}{FENCE}{ANNOUNCE}END:\n"
)
# Who reads last sets the flag back, by a count; not who raised it, nor each that has read.
LAST = "atom.global.add.u32 %r3, [%rd4], 1;\nsetp.ne.u32 %p3, %r3, %r9;\n@%p3 bra AFTER;\n"
RESET = "atom.global.exch.b32 %r4, [%rd3], 0;\n"
RAISED = f"@%p1 bra END;\n{FENCE}atom.global.exch.b32 %r7, [%rd3], 1;\n"
MANY_READERS = (
    "mov.u32 %r8, %ctaid.x;\nsetp.eq.u32 %p5, %r8, 0;\n@%p5 bra PRODUCER;\n@%p1 bra AFTER;\nSPIN:\n"
    "atom.global.add.u32 %r2, [%rd3], 0;\nsetp.ne.u32 %p2, %r2, 1;\n@%p2 bra SPIN;\n"
    f"{FENCE}{LAST}{RESET}AFTER:\n{BARRIER}{READ}st.global.f32 [%rd6+512], %f1;\nbra.uni END;\n"
    f"PRODUCER:\nst.global.f32 [%rd5], %f2;\n{BARRIER}{RAISED}END:\n"
)
# A turn is waited for by a vote of the block; a vote that nobody heeds is no wait.
VOTE = "bar.red.and.pred %p3, 0, %p2;\n"
VOTED = (
    "TURN:\nsetp.eq.u32 %p2, %r9, %r9;\n@%p1 bra ASKED;\nld.acquire.gpu.global.u32 %r2, [%rd3];\n"
    f"setp.eq.u32 %p2, %r2, %r9;\nASKED:\n{VOTE}@!%p3 bra TURN;\n{READ}{STORE}{BARRIER}@%p1 bra DONE;\n"
    "st.release.gpu.global.u32 [%rd3], 5;\nDONE:\n"
)
SAID = Known(produced=frozenset({"0"}))
NONE = Known()
PEER = Known(remote=frozenset({"2", "3"}))
CASES = {  # what is right; what a fault changes in it; what it must be called then
    "a block of one warp": (WARP, NONE, "ld.acquire", "ld.relaxed", "no-acquire"),
    "a spin at a turn's beginning": (AT_ONCE, NONE, "ld.acquire", "ld.relaxed", "no-acquire"),
    "a barrier's phase": (PHASE, NONE, f"{FENCE}atom", "atom", "no-release"),
    "a turn at a slot": (SLOT, NONE, "st.release", "st.relaxed", "no-release"),
    "an exit counted": (PASSED, NONE, "ld.acquire", "ld.relaxed", "no-acquire"),
    "a poll that all test": (BY_ALL, NONE, "gpu.acquire", "gpu.relaxed", "no-acquire"),
    "a grid wait that some skip": (WAITED, SAID, WAITED, SOME_WAIT, "load-above-grid-wait"),
    "a grid wait of one thread": (WAITED, SAID, WAITED, ONE_WAITS, "load-above-grid-wait"),
    "a poll that is made": (POLLED, NONE, POLLED, ONCE, "poll-hoisted"),
    "flags of other ranks": (RANKS, PEER, "release.sys", "release.gpu", "no-system-scope"),
    "a token of an arrival": (ARRIVAL, NONE, "TRY:\n", "TRY:\nmov.u64 %rd10, 0;\n", "mbarrier-phase"),
    "a store that is counted": (SENT, NONE, EXPECT, ARRIVE, "no-expect"),
    "a last copy": (DRAINED, NONE, "wait_group 0", "wait_group 1", "async-copy-pending"),
    "two arrays": (TWO_ARRAYS, NONE, PREFIX + FENCE + ANNOUNCE, ANNOUNCE + FENCE + PREFIX, "early-post"),
    "a turn by a vote": (VOTED, NONE, f"{VOTE}@!%p3 bra TURN;\n", VOTE, "no-wait"),
    "a flag of many readers": (MANY_READERS, NONE, LAST, "", "early-reset"),
    "a flag that is kept up": (MANY_READERS, NONE, RAISED, RAISED + RESET, "early-reset"),
}  # fmt: skip


def judged(name, body, known):
    head = HEAD.replace(".maxntid 128", ".maxntid 32") if "one warp" in name else HEAD
    found = findings_of(listing_of_ptx(f"{head}{body}ret;\n}}\n", "k.ptx"), known)
    return {finding.rule for finding in found if finding.verdict == "wrong"}


@pytest.mark.parametrize("name", CASES)
def test_a_right_form_is_not_called_wrong(name):
    body, known, *_ = CASES[name]
    assert judged(name, body, known) == set()


@pytest.mark.parametrize("name", CASES)
def test_the_fault_of_a_form_is_found(name):
    body, known, right, fault, rule = CASES[name]
    assert body.count(right) >= 1
    assert rule in judged(name, body.replace(right, fault), known)


def test_lanes_of_several_warps_need_more_than_a_warps_barrier():
    assert judged("a block", WARP, NONE) == {"load-before-barrier", "post-before-barrier"}


def test_groups_that_may_be_empty_are_not_said_to_be_pending():
    body = DRAINED.replace("wait_group 0", "wait_group 1")
    assert judged("copies", body, NONE) == {"async-copy-pending"}
    assert judged("copies", body.replace("cp.async.ca", "@%p1 cp.async.ca"), NONE) == set()
