"""Two threads that meet in shared memory with no barrier between, and kernels in which they do not."""

import pytest

from wavesim.lint.check import findings_of
from wavesim.lint.ptx import listing_of_ptx

_KERNEL = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 k_param_0)
{{
.shared .align 4 .b8 tile[2048];
mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, 2;
mov.u32 %r3, tile;
add.s32 %r4, %r3, %r2;
mov.u32 %r5, {last};
sub.s32 %r6, %r5, %r1;
shl.b32 %r7, %r6, 2;
add.s32 %r8, %r3, %r7;
{body}
ld.param.u64 %rd1, [k_param_0];
st.global.f32 [%rd1], %f2;
ret;
}}
"""
_WRITE = "st.shared.f32 [%r4], %f1;\n"
_READ = "ld.shared.f32 %f2, [%r8];\n"
_SYNC = "bar.sync 0;\n"
_MEETS = "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"
_PEER = "mapa.shared::cluster.u32 %r9, %r8, 1;\nld.shared::cluster.f32 %f2, [%r9];\n"
_EARLY = f"barrier.cluster.arrive.release.aligned;\n{_WRITE}barrier.cluster.wait.acquire.aligned;\n"
_TURNS = "mov.u32 %r10, 9;\nT:\n{}add.s32 %r10, %r10, -1;\nsetp.ne.s32 %p1, %r10, 0;\n@%p1 bra T;\n"


@pytest.mark.parametrize(
    ("body", "last", "rule"),
    [
        (_WRITE + _READ, 255, "shared-slot-race"),
        (_WRITE + _SYNC + _READ, 255, ""),
        (_WRITE + "ld.shared.f32 %f2, [%r4];\n", 255, ""),  # its own word
        (_WRITE + _READ, 31, ""),  # the block may be one warp
        (_TURNS.format(_WRITE + _SYNC + _READ), 255, "shared-slot-race"),
        (_TURNS.format(_WRITE + _SYNC + _READ + _SYNC), 255, ""),
        (_MEETS + _EARLY + _PEER + _MEETS, 63, "cluster-unordered"),
        (_MEETS + _WRITE + _MEETS + _PEER + _MEETS, 63, ""),
    ],
)
def test_that_threads_which_meet_need_a_barrier(body: str, last: int, rule: str) -> None:
    """The mirrored word is another warp's or another block's; one's own and one warp's need no barrier."""
    findings = findings_of(listing_of_ptx(_KERNEL.format(body=body, last=last), "k.ptx"))
    assert {finding.rule for finding in findings if finding.verdict == "wrong"} == ({rule} - {""})
