"""Machine code becomes the same instructions that PTX becomes; hand-written disassembly, no tool needed."""

import pytest

from wavesim.errors import RecordingError
from wavesim.lint.instruction import Address, Op
from wavesim.lint.sass import listing_of_sass

HEAD = """\t.target\tsm_90a
\t.elftype\t@"ET_EXEC"
//# base 528 threads 128 parameters 0:8,8:8,16:48 variables 8=flags of k
\t.section\t.text.k,"ax",@progbits
        .type           k,@function
        .other          k,@"STO_CUDA_ENTRY STV_DEFAULT"
k:
.text.k:
"""


def kernel(*lines):
    """The first kernel of a disassembly of these instructions and labels."""
    text = "".join(f"{line}\n" if line.endswith(":") else f"  /*0010*/  {line} ;\n" for line in lines)
    return listing_of_sass(HEAD + text, "x").kernels[0]


def only(line):
    """The one instruction."""
    (instruction,) = kernel(line).instructions
    return instruction


def test_a_strong_load_names_its_registers_and_its_address():
    instruction = only("@!P0 LDG.E.64.STRONG.GPU R4, desc[UR6][R2.64+0x8]")
    assert (instruction.op, instruction.space, instruction.order, instruction.scope, instruction.bytes) == (
        *(Op.LOAD, "global", "relaxed", "gpu"),
        8,
    )
    assert instruction.address == Address("R2", 8)
    assert instruction.defines == ("R4", "R5")
    assert set(instruction.uses) == {"R2", "R3", "UR6", "UR7", "P0"}
    assert instruction.guard == "!P0"


def test_a_store_reads_all_the_registers_that_it_stores():
    instruction = only("STG.E.128 [R2.64+-0x10], R8")
    assert instruction.address == Address("R2", -16)
    assert set(instruction.uses) == {"R2", "R3", "R8", "R9", "R10", "R11"}
    assert instruction.defines == ()


@pytest.mark.parametrize(
    ("line", "symbols"),
    [
        ("LDC.64 R2, c[0x0][0x210]", ("param 0",)),
        ("LDC.64 R2, c[0x0][0x218]", ("param 1",)),
        ("ULDC.64 UR4, c[0x0][0x228]", ("param 2+8",)),
        ("LDC R2, c[0x0][0x208]", ()),  # what the driver keeps before the parameters
        ("IMAD.MOV.U32 R3, RZ, RZ, c[0x0][0x21c]", ("param 1",)),  # the upper half of a pointer
        ("IMAD R3, R2, c[0x0][0x21c], R4", ()),  # multiplied: no pointer
        ("LDC.64 R2, c[0x4][0x8]", ("flags",)),
    ],
)
def test_constant_banks_are_parameters_and_variables(line, symbols):
    assert only(line).symbols == symbols


def test_a_carry_out_is_written_and_a_carry_in_is_read():
    instruction = only("IADD3.X R3, P1, P2, R5, RZ, R7, P3, !PT")
    assert instruction.defines == ("R3", "P1", "P2")
    assert set(instruction.uses) == {"R5", "R7", "P3"}


@pytest.mark.parametrize(
    ("lines", "op"),
    [
        (["UTMACMDFLUSH", "DEPBAR.LE SB0, 0x1", "CCTL.IVALL"], Op.BULK_WAIT),
        (["UTMACMDFLUSH", "DEPBAR.LE SB0, 0x1", "STG.E [R2.64], R4", "CCTL.IVALL"], Op.BULK_WAIT_READ),
        (["UTMACMDFLUSH", "DEPBAR.LE SB0, 0x1"], Op.BULK_WAIT_READ),
        (["LDGDEPBAR", "DEPBAR.LE SB0, 0x1", "CCTL.IVALL"], Op.ASYNC_WAIT),
        (["DEPBAR.LE SB0, 0x1"], Op.OTHER),
    ],
)
def test_what_a_depbar_waits_for_is_told_by_its_neighbours(lines, op):
    (wait,) = [
        instruction for instruction in kernel(*lines).instructions if instruction.text.startswith("DEPBAR")
    ]
    assert wait.op is op
    assert wait.count == (None if op is Op.OTHER else 1)


def test_what_never_runs_is_left_out_and_labels_stay_right():
    code = kernel(
        *("@!PT LDS RZ, [RZ]", ".L_x_0:", "BRA.U !UP0, `(.L_x_0)", "EXIT"),
        *(".L_x_1:", "BRA `(.L_x_1)", "NOP", "NOP"),
    )
    assert [instruction.op for instruction in code.instructions] == [Op.BRANCH, Op.EXIT]
    assert code.labels[".L_x_0"] == 0
    assert code.instructions[0].target == ".L_x_0"
    assert code.instructions[0].guard == "!UP0"


def test_a_branch_by_a_table_names_its_targets():
    instruction = only('BRXU UR4 -0xa0  (*"BRANCH_TARGETS .L_x_3,.L_x_4"*)')
    assert instruction.target == ".L_x_3,.L_x_4"


def test_a_function_behind_a_kernel_is_a_kernel_of_its_own_and_stands_for_its_calls():
    text = HEAD + "  /*0000*/ CALL.REL.NOINC `($k$f) ;\n  /*0010*/ EXIT ;\n .type $k$f,@function\n$k$f:\n"
    text += "  /*0020*/ RET.REL.NODEC R2 `(k) ;\n"
    listing = listing_of_sass(text, "x")
    assert [(k.name, k.is_entry, len(k.instructions), k.threads) for k in listing.kernels] == [
        ("k", True, 2, 128),
        ("$k$f", False, 1, 0),
    ]
    assert listing.kernels[0].parameters == {"param 0": 8, "param 1": 8, "param 2": 48}
    # In the kernel it stands in the place of the call, and its return goes on after that.
    returned = listing.kernels[0].instructions[0]
    assert (returned.op, listing.kernels[0].labels[returned.target]) == (Op.BRANCH, 1)


def test_an_integer_written_as_two_half_floats_is_read():
    assert only("HFMA2.MMA R5, -RZ, RZ, 0, 5.9604644775390625e-08").value == 1


def test_a_clock_and_the_thread_index_are_special_registers():
    assert only("CS2R R4, SR_GLOBALTIMERLO").op is Op.CLOCK
    assert only("S2R R0, SR_TID.X").uses == ("SR_TID.X",)


def test_an_opcode_to_come_is_other_and_its_registers_are_read():
    instruction = only("FROBNICATE.X3 R4, R6, UR7, P2")
    assert (instruction.op, instruction.defines, set(instruction.uses)) == (
        Op.OTHER,
        ("R4",),
        {"R6", "UR7", "P2"},
    )


def test_a_branch_past_a_warp_barrier_that_is_met_is_that_barrier():
    assert (only("BRA.CONV ~URZ, `(.L_x_3)").op, only("BRA.CONV ~URZ, `(.L_x_3)").target) == (
        Op.WARP_SYNC,
        "",
    )


def test_text_without_a_target_is_refused():
    with pytest.raises(RecordingError, match="no disassembly"):
        listing_of_sass("hello", "x")


def test_a_cubin_of_cuda_12_names_its_architecture_in_the_headers_flags():
    flags = '\t.headerflags\t@"EF_CUDA_TEXMODE_UNIFIED EF_CUDA_SM80 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM80)"\n'
    text = f'{flags}\t.section\t.text.k,"ax",@progbits\n.text.k:\n        /*0000*/                   EXIT ;\n'
    assert listing_of_sass(text, "k").arch == "sm_80"


@pytest.mark.parametrize(("mask", "expected"), [("0x80000000", Op.MBARRIER_TEST), ("0x1", Op.LOAD)])
def test_before_syncs_a_test_of_an_mbarrier_is_a_load_whose_top_bit_is_tested(mask, expected):
    test = f"LOP3.LUT P0, RZ, R5, {mask}, R4, 0x48, !PT"
    code = ("LDS R5, [0x404]", "YIELD", test, "ATOMS.ARRIVE.64 RZ, [URZ+0x408]", "EXIT")
    lines = (f"  /*{place:03x}0*/ {text} ;\n" for place, text in enumerate(code))
    (kernel,) = listing_of_sass(HEAD + "".join(lines), "x").kernels
    assert kernel.instructions[0].op is expected


def test_predicates_that_a_register_keeps_are_read_and_written_by_their_bits():
    kept, given_back, _ = kernel("P2R R4, PR, RZ, 0x21", "R2P PR, R4, 0x6", "EXIT").instructions
    assert (kept.defines, set(kept.uses)) == (("R4",), {"P0", "P5"})
    assert (given_back.defines, set(given_back.uses)) == (("P1", "P2"), {"R4"})


def test_a_nop_is_a_warps_barrier_unless_a_matrix_product_comes_next():
    barrier, _, delay, *_ = kernel(
        "NOP", "LDS R4, [R2]", "NOP", "HMMA.16816.F32 R4, R8, R12, R4", "EXIT", "NOP"
    ).instructions
    assert (barrier.op, delay.op) == (Op.WARP_SYNC, Op.OTHER)


def test_a_branch_of_parted_lanes_is_the_warps_barrier_that_it_leads_to():
    sync, *_ = kernel("BRA.DIV UR4, `(.L_x_1)", "EXIT", ".L_x_1:", "EXIT").instructions
    assert (sync.op, sync.target) == (Op.WARP_SYNC, "")


def test_a_call_of_a_label_is_a_jump_and_one_of_a_function_is_not():
    jump, call, *_ = kernel(
        "@P0 CALL.REL.NOINC `(.L_x_1)", "CALL.REL.NOINC `($k$slow)", "EXIT", ".L_x_1:", "EXIT"
    ).instructions
    assert (jump.op, jump.guard, jump.target) == (Op.BRANCH, "P0", ".L_x_1")
    assert call.op is Op.CALL


def test_a_vote_writes_its_result_and_not_what_is_voted_on():
    lines = ("VOTEU.ALL UP0, P1", "VOTE.ANY R4, PT, P1", "REDUX.SUM UR5, R0", "B2R.RESULT RZ, P2", "EXIT")
    voteu, vote, redux, result, _ = (
        (set(instruction.defines), set(instruction.uses)) for instruction in kernel(*lines).instructions
    )
    assert (voteu, redux) == (({"UP0"}, {"P1"}), ({"UR5"}, {"R0"}))
    assert "P1" in vote[1] - vote[0]
    assert "P2" in result[0]
