"""Solutions to notebook 15."""

from wavesim.teaching.proof import broken_ptx

ANSWERS = {
    # An acquiring poll. A fence.acq_rel.gpu between the loop and bar.sync would do as well.
    "15.1": broken_ptx().replace("ld.volatile.global.u32", "ld.acquire.gpu.global.u32"),
    # Both threads have to be within the scope.
    "15.2": {"same block": "cta", "other block": "gpu", "other GPU": "sys"},
    # 128 workers fill an SM each; 148 - 128 are left, if every scheduler lands on one of its own.
    "15.3": 20,
}
