"""Descriptions of a user's own kernels: `wavesim predict FILE`."""

import random
from pathlib import Path

from harness import Target
from judging import judged_json, require
from mutations import with_bytes_changed, with_lines_changed

USUAL = (
    *("[8, 8]", "[1, 1]", "[7, 3, 2]", "[100, 40]", "[24, 8]", "64", "128", "32", "255", "0", "1.5", "300.0"),
    *(
        '"producer-warp"',
        '"block-barrier"',
        '"default"',
        '"fp8"',
        '"swiglu"',
        "true",
        "[128, 256, 64]",
        "[2, 2]",
    ),
    *('"gemm1"', '"gemm2"', '"h200"', '"v100"', '"toy"', "155e9", '["gemm1[:, y]"]', '["gemm1[x, y]"]'),
)
VALUES = (
    *(*USUAL, *USUAL, *USUAL),
    *("[60000, 60000, 60000]", "[2147483647, 65535, 65535]", "[1, 1]", "[0, 1]", "[[1], 2]", "[512, 512]"),
    *('["gemm1[:, y]"]', '["gemm1[x, y]"]', '["gemm1[x * 3 // 2, y]", "gemm1[0, y]"]', '["nothing[:, y]"]'),
    *(
        '["gemm1[x' + "+0" * 400 + ', y]"]',
        '["gemm1[(' * 40 + '"]',
        '["gemm1[x:x+9999, y]"]',
        '"h200"',
        '"v100"',
    ),
    *('["gemm2[x, y]"]', '["gemm1[x // 0, y]"]', '["gemm1[99999999999999999999, y]"]', "155e9", "1e-3"),
)


def made(chance: random.Random, data: bytes) -> bytes:
    """A description with lines and values changed."""
    if chance.random() < 0.15:
        return with_bytes_changed(chance, data)
    return with_lines_changed(chance, data, VALUES)


def call(path: Path) -> bool:
    """The prediction as JSON. Returns whether there was one."""
    verdict = judged_json(["predict", str(path)])
    if verdict is None:
        return False
    is_ordered = verdict["low"] <= verdict["improvement_points"] <= verdict["high"]
    require(is_ordered, f"an estimate outside its interval: {verdict}"[:300])
    return True


TARGET = Target(made, call)
