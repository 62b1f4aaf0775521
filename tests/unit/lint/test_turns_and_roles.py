"""Waits and posts across a loop's turns, by named threads and by roles of blocks: right, and with a fault."""

import pytest

from wavesim.lint.check import findings_of
from wavesim.lint.finding import Known
from wavesim.lint.instruction import Op
from wavesim.lint.ptx import listing_of_ptx
from wavesim.lint.sass import listing_of_sass

HEAD = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u32 p3)
{
.reg .pred %p<19>;
.reg .b32 %r<29>;
.reg .f32 %f<9>;
.reg .b64 %rd<19>;
.shared .align 16 .b8 tile[1024];
.shared .align 4 .b8 ticket[4];
.shared .align 8 .b8 full[8];
.shared .align 8 .b8 empty[8];
ld.param.u64 %rd1, [p0];
ld.param.u64 %rd2, [p1];
ld.param.u64 %rd3, [p2];
ld.param.u32 %r9, [p3];
mov.u32 %r1, %tid.x;
setp.ne.s32 %p1, %r1, 0;
mul.wide.u32 %rd9, %r1, 4;
add.s64 %rd4, %rd1, %rd9;
add.s64 %rd5, %rd2, %rd9;
mov.u32 %r8, 0;
"""
NEXT = "add.s32 %r8, %r8, 1;\nsetp.lt.u32 %p8, %r8, %r9;\n@%p8 bra TURN;\n"
WAIT = (
    "@%p1 bra AFTER;\nSPIN:\nld.acquire.gpu.global.u32 %r2, [%rd3];\n"
    "setp.lt.u32 %p2, %r2, %r8;\n@%p2 bra SPIN;\nAFTER:\n"
)
BARRIER = "bar.sync 0;\n"
FENCE = "fence.acq_rel.gpu;\n"
READ = "ld.global.f32 %f1, [%rd4];\n"
STORE = "st.global.f32 [%rd5], %f1;\n"
POST = "@%p1 bra DONE;\nred.release.gpu.global.add.u32 [%rd3], 1;\nDONE:\n"

AT_THE_END = f"TURN:\n{READ}{STORE}{BARRIER}{POST}{WAIT}{BARRIER}{NEXT}"
FLAG = Known(flags=frozenset({"2"}), produced=frozenset({"0"}))
# A reader of a sequence lock: the record is read by relaxed loads, between two looks at its number.
SEQUENCE = (
    "TURN:\nld.acquire.gpu.global.u32 %r2, [%rd3];\nld.relaxed.gpu.global.u32 %r3, [%rd4];\n"
    f"{FENCE}ld.relaxed.gpu.global.u32 %r4, [%rd3];\nsetp.ne.u32 %p2, %r2, %r4;\n@%p2 bra TURN;\n"
)
# Who draws the last ticket reads what the others left; the block learns it through shared memory.
TICKET = (
    f"{STORE}{BARRIER}@%p1 bra DRAWN;\natom.acq_rel.gpu.global.add.u32 %r2, [%rd3], 1;\n"
    f"st.shared.u32 [ticket], %r2;\nDRAWN:\n{BARRIER}ld.shared.u32 %r3, [ticket];\n"
    "setp.eq.s32 %p3, %r3, 0;\n@%p3 bra END;\nld.global.f32 %f2, [%rd5+4];\nEND:\n"
)
RELEASING = "st.release.gpu.global.u32 [%rd3], 0"
HANDED_BACK = f"TURN:\n{WAIT}{BARRIER}{READ}{BARRIER}@%p1 bra DONE;\n{RELEASING};\nDONE:\n{NEXT}"
BY_TWO = (
    "setp.ne.s32 %p4, %r1, 127;\n@%p4 bra SKIP;\nst.global.f32 [%rd2+508], %f1;\nSKIP:\n" + BARRIER + POST
)
# Between blocks of a cluster: one fills a tile and copies it, the other expects it and reads.
SENDS = (
    "st.shared.f32 [tile], %f1;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n@%p1 bra SENT;\n"
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r5], [tile], 64, [%r6];\n"
    "SENT:\n"
)
TRY = "mbarrier.try_wait.parity.shared::cta.b64 %p5, [full], %r10;\n@!%p5 bra TRY;\n"
CLUSTER = (
    "mov.u32 %r7, %cluster_ctarank;\n"
    "TURN:\nand.b32 %r10, %r8, 1;\nsetp.eq.s32 %p3, %r7, 0;\n@%p3 bra FIRST;\n"
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 64;\n"
    f"TRY:\n{TRY}ld.shared.f32 %f2, [tile];\nbra.uni NEXT;\nFIRST:\n"
    "EMPTY:\nmbarrier.try_wait.parity.shared::cta.b64 %p6, [empty], %r10;\n@!%p6 bra EMPTY;\n"
    f"{SENDS}NEXT:\n{NEXT}"
)
# A loop in front of the pipeline starts three groups; one may be under way when the tile is read.
PIPELINE = (
    "FILL:\ncp.async.ca.shared.global [tile], [%rd4], 16;\ncp.async.commit_group;\nadd.s32 %r8, %r8, 1;\n"
    "setp.lt.u32 %p8, %r8, 3;\n@%p8 bra FILL;\ncp.async.wait_group 1;\nbar.sync 0;\n"
    "ld.shared.f32 %f2, [tile];\n"
)
# A recorder adds the time to a record that nobody waits for; a count in its place would be waited for.
RECORD = (
    f"{STORE}mov.u64 %rd8, %globaltimer;\ncvt.u32.u64 %r5, %rd8;\n{BARRIER}@%p1 bra DONE;\n"
    "red.relaxed.gpu.global.add.u32 [%rd3], %r5;\nDONE:\n"
)
CASES = {  # what is right; what a fault changes in it; what it must be called then
    "a wait at the loop's end": (AT_THE_END, FLAG, "ld.acquire", "ld.relaxed", "no-acquire"),
    "a barrier after it": (AT_THE_END, FLAG, f"AFTER:\n{BARRIER}", "AFTER:\n", "load-before-barrier"),
    "a sequence lock": (SEQUENCE, FLAG, "ld.acquire", "ld.relaxed", "no-acquire"),
    "a ticket in shared memory": (TICKET, Known(), "acq_rel", "release", "no-acquire"),
    "a flag handed back": (HANDED_BACK, Known(), RELEASING, "st.global.u32 [%rd3], 0", "early-reset"),
    "a store by another thread": (BY_TWO, Known(), BARRIER, "", "post-before-barrier"),
    "a copy between blocks": (CLUSTER, Known(), "fence.proxy.async.shared::cta;\n", "", "no-proxy-fence"),
    "a role that awaits": (CLUSTER, Known(), f"TRY:\n{TRY}", "", "mbarrier-not-awaited"),
    "a pipeline filled by a loop": (PIPELINE, Known(), "cp.async.wait_group 1;\n", "", "async-copy-pending"),
}  # fmt: skip


def judged(body, known):
    found = findings_of(listing_of_ptx(f"{HEAD}{body}ret;\n}}\n", "k.ptx"), known)
    return {finding.rule for finding in found if finding.verdict == "wrong"}


@pytest.mark.parametrize("name", CASES)
def test_what_is_in_order_is_not_called_wrong(name):
    body, known, *_ = CASES[name]
    assert judged(body, known) == set()


@pytest.mark.parametrize("name", CASES)
def test_its_fault_is_found(name):
    body, known, right, fault, rule = CASES[name]
    assert body.count(right) >= 1
    assert rule in judged(body.replace(right, fault), known)


def test_a_fence_of_the_arrival_before_the_wait_is_not_taken_for_a_misplaced_one():
    arrival = (
        "atom.relaxed.gpu.global.add.u32 %r3, [%rd2], 1;\n"
        + FENCE
        + "setp.eq.s32 %p4, %r3, 7;\n@%p4 bra AFTER;\n"
    )
    relaxed = (
        "SPIN:\nld.relaxed.gpu.global.u32 %r2, [%rd3];\nsetp.eq.u32 %p2, %r2, 0;\n@%p2 bra SPIN;\nAFTER:\n"
    )
    assert judged(arrival + relaxed + READ, FLAG) == {"no-acquire"}
    assert judged(FENCE + relaxed + READ, FLAG) == {"fence-misplaced"}


def test_a_post_ahead_of_stores_for_others_is_early_also_where_the_loop_has_read_before():
    turn = f"TURN:\n{WAIT}{BARRIER}{READ}{BARRIER}{POST}{STORE}{NEXT}"
    others = Known(flags=frozenset({"2"}), produced=frozenset({"0"}), remote=frozenset({"1"}))
    assert "early-post" in judged(turn.replace(".gpu", ".sys"), others)
    assert judged(turn, FLAG) == set()  # it frees what was read; the store is its own


def test_a_tiles_number_from_a_counter_is_no_ticket():
    fetched = TICKET.replace("atom.acq_rel", "atom.relaxed").replace(
        "ld.global.f32 %f2, [%rd5+4]",
        "mul.wide.u32 %rd6, %r3, 4;\nadd.s64 %rd7, %rd1, %rd6;\nld.global.f32 %f2, [%rd7]",
    )
    assert judged(fetched, Known()) == set()


def test_a_kernel_that_stores_nothing_need_not_post():
    waits = f"{HEAD}{WAIT}{BARRIER}{READ}{STORE}ret;\n}}\n"
    idle = ".visible .entry idle(.param .u64 p0)\n{\n.reg .b32 %r<2>;\nmov.u32 %r1, 5;\nret;\n}\n"
    stores = idle.replace(
        "mov.u32 %r1, 5;", ".reg .b64 %rd<2>;\nld.param.u64 %rd1, [p0];\nst.global.u32 [%rd1], %r1;"
    )

    def rules(other):
        return {
            one.rule for one in findings_of(listing_of_ptx(waits + other, "k.ptx")) if one.verdict == "wrong"
        }

    assert rules(idle) == set()
    assert rules(stores) == {"no-post"}


SASS = """//# base 528 threads 0 parameters 0:8,8:8 variables  of k
	.target	sm_90a
//--------------------- .text.k    --------------------------
	.section	.text.k,"ax",@progbits
    .global    k
    .type    k,@function
k:
.text.k:
    /*0000*/    S2R R0, SR_TID.X ;
    /*0010*/    ISETP.NE.AND P1, PT, R0, RZ, PT ;
    /*0020*/    VOTEU.ALL UP0, P1 ;
    /*0030*/    VOTE.ANY R4, PT, P1 ;
    /*0040*/    REDUX.SUM UR5, R0 ;
    /*0050*/    B2R.RESULT RZ, P2 ;
    /*0060*/    @!UP0 UMOV UR4, 0x1 ;
    /*0070*/    EXIT ;
"""


def test_a_vote_writes_its_result_and_not_what_is_voted_on():
    (kernel,) = listing_of_sass(SASS, "k.sass").kernels
    found = {one.text.split()[0]: (set(one.defines), set(one.uses)) for one in kernel.instructions}
    assert found["VOTEU.ALL"] == ({"UP0"}, {"P1"})
    assert "P1" in found["VOTE.ANY"][1]
    assert "P1" not in found["VOTE.ANY"][0]
    assert found["REDUX.SUM"] == ({"UR5"}, {"R0"})
    assert "P2" in found["B2R.RESULT"][0]
    assert kernel.instructions[-1].op is Op.EXIT


def test_a_record_of_the_time_is_no_post_and_a_count_in_its_place_may_be_one():
    def posts(body):
        found = findings_of(listing_of_ptx(f"{HEAD}{body}ret;\n}}\n", "k.ptx"), Known())
        return [finding.verdict for finding in found if finding.kind == "post"]

    assert posts(RECORD) == []
    assert posts(RECORD.replace("[%rd3], %r5", "[%rd3], 1")) == ["unknown"]
