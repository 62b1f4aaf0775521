"""Our own GPU code passes our own lint, for four architectures, as PTX and as machine code.

A part of what is compiled; `tests/support/lint_own_code.py` takes all of it.
"""

import pytest
from lint_own_code import judged, wrong_of
from own_kernels import ALL, OWN, generated_kernels

pytestmark = pytest.mark.usefixtures("nvrtc", "nvdisasm")

CHOSEN = [
    *(("portable gemm1 streams+row", arch) for arch in ("sm_80", "sm_120")),
    *(("portable gemm2 streams+row", arch) for arch in ALL),
    ("portable gemm2 streams+tile", "sm_90a"),
    ("hopper gemm1 streams+row", "sm_90a"),
    ("hopper gemm2 streams+row", "sm_90a"),
    ("hopper gemm2 pdl+tile", "sm_90a"),
    ("chained hopper gemm2 pdl+tile", "sm_90a"),
    ("hopper gemm1+gemm2 fused+row", "sm_90a"),
    ("hopper attention 128 persistent+streams+tile", "sm_90a"),
    ("portable attention streams+tile", "sm_80"),
    ("portable attention streams+tile", "sm_100"),
    ("decode attention streams+tile", "sm_90a"),
    ("head product scores streams+tile", "sm_80"),
    ("head product context streams+row", "sm_120"),
    ("copy of tiles streams+tile", "sm_100"),
    ("foreign products", "sm_80"),
    ("norm persistent+streams+row", "sm_80"),
    ("hopper residual persistent+pdl+row", "sm_90a"),
    ("hopper convolution persistent+pdl+tile", "sm_90a"),
    ("portable convolution streams+tile", "sm_80"),
    *(("wait-kernel", arch) for arch in ALL),
    ("foreign softmax", "sm_100"),
    ("synchronised example", "sm_90a"),
]
# How many waits and posts at least must be found and be right: a lint that sees none would pass the rest.
LEAST = {
    "gemm1": (0, 1),
    "gemm2": (1, 0),
    "fused": (1, 1),
    "attention": (1, 1),
    "product": (1, 1),
    "norm": (1, 1),
    "residual": (1, 1),
    "convolution": (1, 1),
    "wait-kernel": (1, 0),
    "copy of tiles": (1, 0),
    "foreign products": (1, 0),
    "softmax": (1, 0),
    "example": (1, 1),
}


def found_right(findings, kind):
    """How many findings of a kind are right."""
    return sum(finding.kind == kind and finding.verdict == "right" for finding in findings)


def require_right(name, findings, waits, posts):
    """Nothing is wrong that is not deliberate, and so many waits and posts are right."""
    assert [(one.kernel, one.rule, one.why) for one in wrong_of(name, findings)] == []
    assert found_right(findings, "wait") >= waits
    assert found_right(findings, "post") >= posts


@pytest.mark.parametrize(("name", "arch"), CHOSEN)
def test_waits_and_posts_of_our_own_kernels_are_right(name, arch):
    waits, posts = next(least for word, least in reversed(LEAST.items()) if word in name)
    for _, findings in judged(OWN[name], arch):
        require_right(name, findings, waits, posts)


@pytest.mark.parametrize("arch", ALL)
def test_a_users_kernels_around_a_generated_header_are_right(arch, tmp_path):
    for _, findings in judged(generated_kernels(tmp_path), arch):
        require_right("generated kernels", findings, 1, 1)
