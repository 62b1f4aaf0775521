"""Control and data flow of kernels small enough to be checked by hand."""

import pytest

from wavesim.lint.flow import Flow
from wavesim.lint.instruction import KernelCode, Op
from wavesim.lint.ptx import listing_of_ptx
from wavesim.lint.sass_instructions import Attributes, instruction_of


def kernel(body, parameters=".param .u64 a, .param .u64 b, .param .align 8 .b8 s[32]", threads=""):
    text = f"""
.version 9.0
.visible .entry k({parameters}) {threads}
{{ .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .b8 sm[64]; .shared .b8 other[64];
{body}
}}"""
    return listing_of_ptx(text, "made-up").kernels[0]


SPIN = kernel("""
  ld.param.u64 %rd1, [a];
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra DONE;
WAIT:
  ld.acquire.gpu.global.u32 %r2, [%rd1];
  setp.lt.u32 %p2, %r2, 4;
  @%p2 bra WAIT;
DONE:
  bar.sync 0;
  ld.global.u32 %r3, [%rd1+64];
  ret;
""")


def test_what_every_path_passes():
    flow = Flow(SPIN)
    assert (flow.dominates(3, 8), flow.dominates(4, 8), flow.dominates(8, 8)) == (True, False, True)
    assert (flow.post_dominates(7, 0), flow.post_dominates(4, 0), flow.post_dominates(6, 4)) == (
        True,
        False,
        True,
    )


def test_loops_within_loops_and_with_two_entries():
    nested = kernel("""
OUTER: add.u32 %r1, %r1, 1;
INNER: add.u32 %r2, %r2, 1;
  @%p1 bra INNER;
  @%p2 bra OUTER;
  ret;""")
    assert [(loop.depth, sorted(loop.body), loop.exits) for loop in Flow(nested).loops] == [
        (0, [0, 1, 2, 3], (3,)),
        (1, [1, 2], (2,)),
    ]
    irreducible = kernel("""
  @%p1 bra B;
A: add.u32 %r1, %r1, 1;
B: add.u32 %r2, %r2, 1;
  @%p2 bra A;
  ret;""")
    (loop,) = Flow(irreducible).loops
    assert (sorted(loop.body), loop.exits) == ([1, 2, 3], (3,))


@pytest.mark.parametrize(
    ("between", "expected"), [("mov.u32 %r3, 0;", {2}), ("setp.eq.u32 %p1, %r3, 0;", {0, 2})]
)
def test_under_the_same_predicate_a_predicated_definition_ends_the_one_before(between, expected):
    flow = Flow(kernel(f"mov.u32 %r1, 0; nop; @%p1 mov.u32 %r1, 1; {between} @%p1 mov.u32 %r2, %r1; ret;"))
    assert flow.definitions("%r1", 4) == expected


def test_a_loop_that_nothing_leaves_has_post_dominators_too():
    flow = Flow(kernel("@%p1 bra END; L: add.u32 %r1, %r1, 1; bra L; END: ret;"))
    assert flow.post_dominates(3, 0) is False
    assert flow.post_dominates(2, 1) is True


def test_an_indirect_branch_goes_where_its_table_says():
    flow = Flow(kernel("T: .branchtargets A, B; brx.idx %r1, T; A: ret; B: trap;"))
    assert flow.successors(0) == (1, 2)
    assert Flow(kernel("brx.idx %r1, NOWHERE; ret;")).unknown_branches == (0,)


@pytest.mark.parametrize(
    ("body", "roots"),
    [
        ("ld.param.u64 %rd1, [b]; ld.u32 %r1, [%rd1];", {"1"}),
        ("ld.param.u64 %rd1, [s+8]; cvta.to.global.u64 %rd2, %rd1; ld.u32 %r1, [%rd2+4];", {"2+8"}),
        ("mov.b64 %rd1, s; add.u64 %rd2, %rd1, 9; ld.param.u64 %rd3, [%rd2+7]; ld.b8 %r1, [%rd3];", {"2+16"}),
        ("ld.param.v2.u64 {%rd1, %rd2}, [s+16]; ld.u32 %r1, [%rd2];", {"2+24"}),
        # An index is no pointer, whatever it is computed from.
        (("A; B; shl.b64 %rd3, %rd2, 2; add.s64 %rd4, %rd1, %rd3;"
         " ld.u32 %r1, [%rd4];"), {"0"}),
        ("A; ld.param.u32 %r3, [s]; mad.wide.u32 %rd4, %r3, 4, %rd1; ld.u32 %r1, [%rd4];",
         {"0"}),
        ("A; @%p1 ld.param.u64 %rd1, [b]; ld.u32 %r1, [%rd1];", {"0", "1"}),
        ("A; B; selp.b64 %rd3, %rd1, %rd2, %p1; ld.u32 %r1, [%rd3];",
         {"0", "1"}),
        # A pointer that was loaded from memory is no parameter.
        ("A; ld.global.u64 %rd2, [%rd1]; ld.u32 %r1, [%rd2];", set()),
        ("mov.u32 %r2, sm; shl.b32 %r3, %r2, 0; add.u32 %r4, %r2, %r3; ld.shared.u32 %r1, [%r4];", {"sm"}),
        ("mov.b64 %rd1, s; add.s64 %rd2, %rd1, 16; cvta.param.u64 %rd3, %rd2; prefetch.L2 [%rd3];", {"2+16"}),
    ],
)  # fmt: skip
def test_parameters_flow_into_addresses(body, roots):
    # "A;" and "B;" load the first two parameters.
    loads = body.replace("A;", "ld.param.u64 %rd1, [a];").replace("B;", "ld.param.u64 %rd2, [b];")
    code = kernel(loads + " ret;")
    traced = Flow(code).roots(len(code.instructions) - 2)
    assert {root.removeprefix("param ") for root in traced} == roots


def test_a_tensor_map_in_machine_code_is_the_parameter_at_its_distance_from_the_first():
    lines = [
        "ULDC.64 UR4, c[0x0][0x198]",
        "UIADD3 UR6, UP0, UR4, 0x30, URZ",
        "UIADD3.X UR7, URZ, UR5, URZ, UP0, !UPT",
    ]
    attributes = Attributes(0x210, ((0, 8), (0x30, 128)))
    code = [
        instruction_of(line, at, attributes, None)
        for at, line in enumerate([*lines, "UTMACCTL.PF [UR6]", "EXIT"], 1)
    ]
    flow = Flow(KernelCode("k", code, {}, {"param 0": 8, "param 1": 128}, offsets=(0, 0x30)))
    assert flow.roots(3) == {"param 1"}


@pytest.mark.parametrize(
    ("test", "is_one"),
    [
        ("setp.ne.u32 %p1, %r1, 0; @%p1 bra END;", True),
        ("setp.eq.u32 %p1, %r1, 0; @%p1 bra ON; bra END; ON:", True),
        ("setp.eq.u32 %p1, %r1, 0; @%p1 bra END;", False),
        ("setp.gt.u32 %p1, %r1, 0; @%p1 bra END;", True),
        ("setp.gt.u32 %p1, %r1, 31; @%p1 bra END;", False),
        ("and.b32 %r2, %r1, 31; setp.ne.u32 %p1, %r2, 0; @%p1 bra END;", False),
        (("and.b32 %r2, %r1, 31; setp.ne.u32 %p1, %r2, 0; @%p1 bra END;"
         " shr.u32 %r3, %r1, 5; setp.ne.u32 %p2, %r3, 3; @%p2 bra END;"), True),
        # Four warps have the same number of warps times four.
        (("and.b32 %r2, %r1, 31; setp.ne.u32 %p1, %r2, 0; @%p1 bra END;"
         " shr.u32 %r3, %r1, 7; setp.ne.u32 %p2, %r3, 1; @%p2 bra END;"), False),
        ("elect.sync %r2|%p1, 0xffffffff; @!%p1 bra END;", True),
        ("elect.sync %r2|%p1, 0xffffffff; @%p1 bra END;", False),
        ("setp.ne.u32 %p1, %r1, 0; setp.ne.u32 %p2, %r5, 0; or.pred %p3, %p1, %p2; @%p3 bra END;", True),
        ("setp.ne.u32 %p1, %r1, 0; setp.ne.u32 %p2, %r5, 0; and.pred %p3, %p1, %p2; @%p3 bra END;", False),
        ("setp.ne.u32 %p1, %r5, 0; @%p1 bra END;", False),
    ],
)  # fmt: skip
def test_a_test_of_the_thread_number_leaves_one_thread(test, is_one):
    code = kernel(f"ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; {test} st.global.u32 [%rd1], 1; END: ret;")
    assert Flow(code).is_one_thread(len(code.instructions) - 2) is is_one


def test_blocks_of_one_warp_need_the_lane_alone():
    test = "and.b32 %r2, %r1, 31; setp.ne.u32 %p1, %r2, 0; @%p1 bra END; st.shared.u32 [sm], 1; END: ret;"
    code = kernel(f"mov.u32 %r1, %tid.x; {test}", threads=".reqntid 32")
    assert Flow(code).is_one_thread(4) is True


CALLED = """
.version 9.0
.func wait(.param .b64 wait_param_0, .param .b32 wait_param_1)
{ .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [wait_param_0]; ld.param.u32 %r1, [wait_param_1];
L: ld.acquire.gpu.global.u32 %r2, [%rd1]; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L; ret; }
.visible .entry k(.param .u64 a, .param .u64 b)
{ .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [b]; ld.param.u64 %rd3, [a]; mov.u32 %r2, 7;
  { .param .b64 param0; st.param.b64 [param0+0], %rd1; .param .b32 param1; st.param.b32 [param1+0], %r2;
    call.uni wait, (param0, param1); }
  ld.global.u32 %r1, [%rd3];
  { .param .b64 param0; st.param.b64 [param0+0], %rd3; .param .b32 param1; st.param.b32 [param1+0], %r2;
    call.uni wait, (param0, param1); }
  call.uni elsewhere, (param0); ret; }
"""


def test_the_flow_of_a_kernel_goes_through_the_functions_that_it_calls():
    code = listing_of_ptx(CALLED, "called").kernels[1]
    flow = Flow(code)
    waits = [at for at, instruction in enumerate(code.instructions) if instruction.order == "acquire"]
    assert [flow.roots(at) for at in waits] == [{"param 1"}, {"param 0"}]
    assert [(loop.header, len(loop.body)) for loop in flow.loops] == [(at, 3) for at in waits]
    load = next(
        at
        for at, instruction in enumerate(code.instructions)
        if instruction.space == "global" and instruction.order == "weak"
    )
    assert (flow.dominates(waits[0], load), flow.dominates(load, waits[1])) == (True, True)
    assert [instruction.target for instruction in code.instructions if instruction.op is Op.CALL] == [
        "elsewhere"
    ]


def test_recursion_stays_a_call():
    text = ".version 9.0 .func f() { call.uni f; ret; } .entry k() { call.uni f; ret; }"
    code = listing_of_ptx(text.replace("9.0 ", "9.0\n"), "endless").kernels[1]
    assert [instruction.op for instruction in code.instructions] == [Op.CALL, Op.BRANCH, Op.RETURN]


def test_a_pointer_that_was_put_into_local_memory_keeps_its_root():
    body = """.local .b8 depot[16]; ld.param.u64 %rd1, [b]; mov.u64 %rd2, depot; cvta.local.u64 %rd3, %rd2;
      st.u64 [%rd3+8], %rd1; add.u64 %rd4, %rd3, 8; ld.u64 %rd5, [%rd4]; ld.global.u32 %r1, [%rd5]; ret;"""
    assert Flow(kernel(body)).roots(6) == {"param 1"}
