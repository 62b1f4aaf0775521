"""PTX text becomes instructions with order, scope and space; what is not known is read and named."""

import pytest

from wavesim.errors import RecordingError
from wavesim.lint.instruction import Address, Op, SourceLine
from wavesim.lint.ptx import listing_of_ptx


def only(line, declared=""):
    """The one instruction of a kernel with parameters k_param_0 (a struct of 24 bytes) and k_param_1."""
    text = f"""
.version 9.0
.target sm_90a
.visible .entry k(.param .align 8 .b8 k_param_0[24], .param .u64 .ptr .global .align 16 k_param_1)
{{
  .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; {declared}
  {line}
}}"""
    (kernel,) = listing_of_ptx(text, "made-up").kernels
    (instruction,) = kernel.instructions
    return instruction


@pytest.mark.parametrize(
    ("line", "op", "space", "order", "scope", "size"),
    [
        ("ld.global.u32 %r1, [%rd1];", Op.LOAD, "global", "weak", "", 4),
        ("ld.acquire.gpu.global.v2.b64 {%rd1, %rd2}, [%rd3];", Op.LOAD, "global", "acquire", "gpu", 16),
        ("ld.relaxed.sys.b32 %r1, [%rd1];", Op.LOAD, "generic", "relaxed", "sys", 4),
        ("ld.volatile.global.u32 %r1, [%rd1];", Op.LOAD, "global", "volatile", "sys", 4),
        ("ld.mmio.relaxed.sys.global.u32 %r1, [%rd1];", Op.LOAD, "global", "mmio", "sys", 4),
        (
            "ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {%r1,%r2,%r3,%r4}, [%rd1];",
            Op.LOAD,
            "global",
            "nc",
            "",
            16,
        ),
        ("ld.shared::cluster.u8 %r1, [%r2];", Op.LOAD, "shared::cluster", "weak", "", 1),
        ("st.release.gpu.global.u32 [%rd1], 1;", Op.STORE, "global", "release", "gpu", 4),
        (
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r3];",
            Op.STORE,
            "shared::cluster",
            "weak",
            "",
            4,
        ),
        ("atom.global.add.u32 %r1, [%rd1], 1;", Op.ATOMIC, "global", "relaxed", "gpu", 4),
        (
            "atom.acq_rel.sys.global.cas.b64 %rd1, [%rd2], %rd3, %rd4;",
            Op.ATOMIC,
            "global",
            "acq_rel",
            "sys",
            8,
        ),
        ("red.release.gpu.global.add.s32 [%rd1], 1;", Op.REDUCTION, "global", "release", "gpu", 4),
        ("multimem.red.release.sys.global.add.u32 [%rd1], 1;", Op.REDUCTION, "global", "release", "sys", 4),
        (
            "multimem.ld_reduce.acquire.sys.global.add.u32 %r1, [%rd1];",
            Op.LOAD,
            "global",
            "acquire",
            "sys",
            4,
        ),
        ("fence.acq_rel.gpu;", Op.FENCE, "", "acq_rel", "gpu", 0),
        ("fence.sc.sys;", Op.FENCE, "", "sc", "sys", 0),
        ("membar.gl;", Op.FENCE, "", "sc", "gpu", 0),
        ("membar.cta;", Op.FENCE, "", "sc", "cta", 0),
        ("fence.proxy.async;", Op.PROXY_FENCE, "", "", "", 0),
        ("fence.proxy.async.global;", Op.PROXY_FENCE, "global", "", "", 0),
        ("fence.proxy.async.shared::cta;", Op.PROXY_FENCE, "shared", "", "", 0),
        ("fence.mbarrier_init.release.cluster;", Op.OTHER, "", "", "", 0),
        ("barrier.cluster.arrive.relaxed.aligned;", Op.CLUSTER_ARRIVE, "", "relaxed", "cluster", 0),
        ("barrier.cluster.wait.aligned;", Op.CLUSTER_WAIT, "", "acquire", "cluster", 0),
        ("bar.warp.sync 0xffffffff;", Op.WARP_SYNC, "", "", "", 0),
        ("mbarrier.init.shared::cta.b64 [%r1], 1;", Op.MBARRIER_INIT, "shared", "relaxed", "cta", 8),
        (
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 64;",
            Op.MBARRIER_EXPECT,
            "shared",
            "release",
            "cta",
            8,
        ),
        ("mbarrier.arrive.shared::cta.b64 _, [%r1];", Op.MBARRIER_ARRIVE, "shared", "release", "cta", 8),
        (
            "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;",
            Op.MBARRIER_TEST,
            "shared",
            "acquire",
            "cta",
            8,
        ),
        ("cp.async.cg.shared.global [%r1], [%rd1], 16;", Op.ASYNC_COPY, "global", "weak", "", 16),
        ("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1];", Op.ASYNC_ARRIVE, "shared", "", "", 0),
        (
            (
                "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                " [%r1], [%rd1, {%r2, %r3}], [%r4];"
            ),
            Op.BULK_LOAD,
            "global",
            "weak",
            "",
            0,
        ),
        (
            "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1, %r2}], [%r3];",
            Op.BULK_STORE,
            "global",
            "weak",
            "",
            0,
        ),
        (
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r1], 64;",
            Op.BULK_REDUCE,
            "global",
            "weak",
            "",
            0,
        ),
        (
            "cp.async.bulk.prefetch.tensor.2d.L2.global [%rd1, {%r1, %r2}];",
            Op.BULK_PREFETCH,
            "global",
            "",
            "",
            0,
        ),
        ("griddepcontrol.wait;", Op.GRID_WAIT, "", "", "", 0),
        ("griddepcontrol.launch_dependents;", Op.GRID_TRIGGER, "", "", "", 0),
        ("prefetch.global.L2 [%rd1];", Op.PREFETCH, "global", "", "", 0),
        ("nanosleep.u32 64;", Op.SLEEP, "", "", "", 0),
        ("mov.u64 %rd1, %globaltimer;", Op.CLOCK, "", "", "", 0),
        ("trap;", Op.TRAP, "", "", "", 0),
    ],
)
def test_an_opcode_says_what_it_does_to_memory(line, op, space, order, scope, size):
    instruction = only(line)
    assert (instruction.op, instruction.space, instruction.order, instruction.scope, instruction.bytes) == (
        op,
        space,
        order,
        scope,
        size,
    )


def test_operands_are_registers_addresses_and_constants():
    instruction = only("@!%p2 atom.add.release.gpu.global.u32 %r4, [%rd1+8], 0x10;")
    assert (instruction.defines, instruction.uses, instruction.guard) == (("%r4",), ("%rd1", "%p2"), "!%p2")
    assert (instruction.address, instruction.value) == (Address("%rd1", 8), 16)


def test_parameters_are_named_by_their_number():
    instruction = only("ld.param.u64 %rd1, [k_param_0+16];")
    assert (instruction.symbols, instruction.address, instruction.space) == (
        ("param 0",),
        Address("param 0", 16),
        "param",
    )


def test_the_address_of_a_copy_is_that_of_global_memory():
    assert only("cp.async.cg.shared.global [%r1], [%rd1+32], 16;").address == Address("%rd1", 32)
    line = "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::bytes [%r1], [%rd1, {%r2}], [%r4];"
    assert only(line).address == Address("%rd1", 0)
    assert only(line).uses == ("%r1", "%rd1", "%r2", "%r4")


@pytest.mark.parametrize(
    ("line", "count", "value"),
    [
        ("bar.sync 0;", 0, None),
        ("barrier.cta.sync.aligned 1, 128;", 1, 128),
        ("bar.sync %r1, 64;", None, 64),
        ("barrier.cta.red.popc.aligned.u32 %r1, 2, %p1;", 2, None),
        ("cp.async.wait_group 2;", 2, None),
        ("cp.async.wait_all;", 0, None),
        ("cp.async.bulk.wait_group.read 1;", 1, None),
    ],
)
def test_barriers_and_waits_have_their_number(line, count, value):
    instruction = only(line)
    assert (instruction.count, instruction.value) == (count, value)


def test_an_opcode_to_come_is_other_and_its_registers_are_read():
    instruction = only("frobnicate.sync.v2.u99 {%r1, %r2}, %rd3, [%rd4], 7;")
    assert (instruction.op, instruction.defines, instruction.uses) == (
        Op.OTHER,
        ("%r1", "%r2"),
        ("%rd3", "%rd4"),
    )


KERNEL = """
.version 8.7
.target sm_90a, debug
.address_size 64
.file 1 "/src/pair.cu"
.extern .shared .align 16 .b8 pool[];
.func (.param .b32 func_retval0) helper(.param .b64 helper_param_0);
.visible .entry consumer(.param .u64 consumer_param_0)
.reqntid 32, 4 .pragma "nounroll";
{
  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>; // a comment; with { braces
  .loc 1 12 3
  ld.param.u64 %rd1, [consumer_param_0]; /* over
  two lines */
$WAIT:
  { .reg .pred p; .reg .b32 t<2>;
    LOOP: ld.acquire.gpu.u32 t1, [%rd1]; setp.ne.u32 p, t1, 0; @p bra LOOP; }
  { .reg .pred p;
    LOOP: setp.ne.u32 p, %r1, 0; @p bra LOOP; bra.uni $WAIT; }
  .loc 1 14 3, function_name $L__info_string0, inlined_at 1 20 3
  call.uni (retval0), helper, (param0);
T: .branchtargets $WAIT, $END;
  brx.idx %r2, T;
  .future_directive 1, 2
$END:
  ret;
}
.section .debug_str { $L__info_string0: .b8 1,2,3 }
"""


def test_a_kernel_has_name_parameters_threads_and_labels():
    listing = listing_of_ptx(KERNEL, "pair.ptx")
    (kernel,) = listing.kernels
    assert (listing.arch, listing.notes, kernel.name, kernel.threads) == ("sm_90a", (), "consumer", 128)
    assert dict(kernel.parameters) == {"consumer_param_0": 8}
    assert dict(kernel.labels) == {"$WAIT": 1, "LOOP@1": 1, "LOOP@2": 4, "T": 8, "$END": 9}


def test_names_in_braces_are_told_apart():
    (kernel,) = listing_of_ptx(KERNEL, "pair.ptx").kernels
    assert [instruction.target for instruction in kernel.instructions if instruction.target] == [
        "LOOP@1",
        "LOOP@2",
        "$WAIT",
        "helper",
        "$WAIT,$END",
    ]
    assert [instruction.defines for instruction in kernel.instructions[1:5]] == [
        ("t1@1",),
        ("p@1",),
        (),
        ("p@2",),
    ]


def test_an_instruction_knows_its_line_in_text_and_source():
    (kernel,) = listing_of_ptx(KERNEL, "pair.ptx").kernels
    assert [
        (instruction.listing_line, instruction.source)
        for instruction in (kernel.instructions[0], kernel.instructions[7])
    ] == [
        (13, SourceLine("/src/pair.cu", 12)),
        (21, SourceLine("/src/pair.cu", 14)),
    ]


def test_what_is_no_ptx_is_refused_in_one_line():
    with pytest.raises(
        RecordingError, match=r"a\.ptx is not PTX: it has neither \.version nor \.entry nor \.func"
    ):
        listing_of_ptx("int main() {}", "a.ptx")


def test_a_kernel_that_is_cut_off_is_read_up_to_there_and_noted():
    text = KERNEL[: KERNEL.index("  .loc 1 14")]
    listing = listing_of_ptx(text, "pair.ptx")
    assert len(listing.kernels[0].instructions) == 7
    assert listing.notes == ("consumer is cut off after line 19",)
