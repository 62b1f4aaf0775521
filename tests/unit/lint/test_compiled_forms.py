"""Forms that compilers make of right code: looks in front of loops, waits that parameters skip."""

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
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3)
{
.reg .pred %p<19>;
.reg .b32 %r<29>;
.reg .f32 %f<9>;
.reg .b64 %rd<29>;
ld.param.u64 %rd1, [p0];
ld.param.u64 %rd2, [p1];
ld.param.u64 %rd3, [p2];
ld.param.u64 %rd4, [p3];
mov.u32 %r1, %tid.x;
setp.ne.s32 %p1, %r1, 0;
mul.wide.u32 %rd9, %r1, 4;
add.s64 %rd5, %rd1, %rd9;
add.s64 %rd6, %rd2, %rd9;
"""
LOOK = "ld.relaxed.gpu.global.u32 %r2, [%rd3];\n"
ASK = "setp.ge.u32 %p2, %r2, 4;\n"
FENCE = "fence.acq_rel.gpu;\n"
BARRIER = "bar.sync 0;\n"
READ = "ld.global.f32 %f1, [%rd5];\n"
STORE = "st.global.f32 [%rd6], %f1;\n"
POST = "@%p1 bra DONE;\nred.release.gpu.global.add.u32 [%rd3+4], 1;\nDONE:\n"
# The loop's first look stands in front of it.
PEELED = (
    f"@%p1 bra AFTER;\n{LOOK}TURN:\n{ASK}@%p2 bra SEEN;\n{LOOK}bra.uni TURN;\nSEEN:\n{FENCE}AFTER:\n{BARRIER}"
)
# By its parameters the kernel may have nothing to wait for; a second wait comes later.
OPTIONAL = f"setp.eq.s64 %p3, %rd4, 0;\n@%p3 bra AFTER;\n{PEELED}"
SECOND = PEELED.replace("TURN", "TURN2").replace("SEEN", "SEEN2").replace("AFTER", "AFTER2")
TWICE = f"{OPTIONAL}{READ}{STORE}{SECOND}{READ}{STORE}{BARRIER}{POST}"
# A list of flags, an entry of which the compiler loads in two halves; the first says where the list ends.
HALVES = (
    "mov.u64 %rd10, %rd4;\nmov.u32 %r5, 0;\nTURN:\nmul.wide.u32 %rd12, %r5, 4;\nadd.s64 %rd13, %rd3, %rd12;\n"
    "SPIN:\nld.relaxed.gpu.global.u32 %r2, [%rd13];\nsetp.lt.u32 %p2, %r2, 4;\n@%p2 bra SPIN;\n"
    "ld.global.v2.u32 {%r3, %r4}, [%rd10];\nld.global.v2.u32 {%r5, %r6}, [%rd10+8];\n"
    f"add.s64 %rd10, %rd10, 16;\nsetp.ne.u32 %p4, %r3, 0;\n@%p4 bra TURN;\n{FENCE}{BARRIER}{READ}"
)
# Who waits too long takes a place in a report and says so to all; positions are counted relaxed.
TIMED = (
    "@%p1 bra AFTER;\nmov.u64 %rd10, %globaltimer;\nTURN:\nld.relaxed.gpu.global.u32 %r2, [%rd3];\n"
    "setp.ge.u32 %p2, %r2, 4;\n@%p2 bra SEEN;\nmov.u64 %rd11, %globaltimer;\nsub.s64 %rd12, %rd11, %rd10;\n"
    "setp.gt.u64 %p3, %rd12, 1000;\n@%p3 bra LATE;\nld.relaxed.gpu.global.u32 %r3, [%rd4];\n"
    "setp.eq.u32 %p4, %r3, 0;\n@%p4 bra TURN;\nbra.uni NOTE;\nLATE:\n"
    "atom.global.exch.b32 %r4, [%rd4], 1;\nNOTE:\natom.global.add.u32 %r5, [%rd4+4], 1;\n"
    "mul.wide.u32 %rd13, %r5, 4;\nadd.s64 %rd14, %rd4, %rd13;\n"
    f"st.global.u32 [%rd14+8], %r2;\nSEEN:\n{FENCE}AFTER:\n{BARRIER}"
)
COUNT = "@%p1 bra COUNTED;\nred.relaxed.gpu.global.add.u32 [%rd3+8], 1;\nCOUNTED:\n"
COUNTED = f"{TIMED}{COUNT}{READ}{STORE}{BARRIER}{POST}"
SAID = Known(flags=frozenset({"2"}))
CASES = {  # what is right; what a fault changes in it; what it must be called then
    "a look in front of its loop": (f"{PEELED}{READ}{STORE}", SAID, FENCE, "", "no-acquire"),
    "a load above it": (f"{PEELED}{READ}", Known(), PEELED, f"{READ}{PEELED}", "load-above-wait"),
    "a wait that a parameter skips": (TWICE, Known(), OPTIONAL, f"{READ}{OPTIONAL}", "load-above-wait"),
    "a list's entry in halves": (HALVES, Known(), FENCE, "", "no-acquire"),
    "a note of a time-out": (COUNTED, Known(), COUNT, f"{STORE}{BARRIER}{COUNT}", "no-release"),
}  # fmt: skip


def judged(body, known):
    found = findings_of(listing_of_ptx(f"{HEAD}{body}ret;\n}}\n", "k.ptx"), known)
    return {finding.rule for finding in found if finding.verdict == "wrong"} - {"unbounded-spin"}


@pytest.mark.parametrize("name", CASES)
def test_a_form_that_compilers_make_is_not_called_wrong(name):
    body, known, *_ = CASES[name]
    assert judged(body, known) == set()


@pytest.mark.parametrize("name", CASES)
def test_the_fault_of_such_a_form_is_found(name):
    body, known, right, fault, rule = CASES[name]
    assert body.count(right) >= 1
    assert rule in judged(body.replace(right, fault), known)


def code(*lines):
    """The instructions of a kernel of machine code."""
    head = '.target\tsm_90a\n.section\t.text.k,"ax",@progbits\n.other k,@"STO_CUDA_ENTRY STV_DEFAULT"\nk:\n'
    text = "".join(f"{line}\n" if line.endswith(":") else f"  /*0010*/  {line} ;\n" for line in lines)
    return listing_of_sass(head + text, "x").kernels[0].instructions


def test_predicates_that_a_register_keeps_are_read_and_written_by_their_bits():
    kept, given_back, _ = code("P2R R4, PR, RZ, 0x21", "R2P PR, R4, 0x6", "EXIT")
    assert (kept.defines, set(kept.uses)) == (("R4",), {"P0", "P5"})
    assert (given_back.defines, set(given_back.uses)) == (("P1", "P2"), {"R4"})


def test_a_nop_is_a_warps_barrier_unless_a_matrix_product_comes_next():
    barrier, _, delay, *_ = code(
        "NOP", "LDS R4, [R2]", "NOP", "HMMA.16816.F32 R4, R8, R12, R4", "EXIT", "NOP"
    )
    assert (barrier.op, delay.op) == (Op.WARP_SYNC, Op.OTHER)


def test_a_branch_of_parted_lanes_is_the_warps_barrier_that_it_leads_to():
    sync, *_ = code("BRA.DIV UR4, `(.L_x_1)", "EXIT", ".L_x_1:", "EXIT")
    assert (sync.op, sync.target) == (Op.WARP_SYNC, "")


def test_a_call_of_a_label_is_a_jump_and_one_of_a_function_is_not():
    jump, call, *_ = code(
        "@P0 CALL.REL.NOINC `(.L_x_1)", "CALL.REL.NOINC `($k$slow)", "EXIT", ".L_x_1:", "EXIT"
    )
    assert (jump.op, jump.guard, jump.target) == (Op.BRANCH, "P0", ".L_x_1")
    assert call.op is Op.CALL
