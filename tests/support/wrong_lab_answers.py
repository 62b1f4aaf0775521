"""Wrong answers to the exercises of notebooks 19 to 22, each with a part of the hint that it must get."""

from typing import Any


def _every_other_tree(thread: int, step: int) -> tuple[int, int] | None:
    """v0's."""
    return None if thread % (2 << step) else (thread, thread + (1 << step))


# Answers a reader might well give, each with a word of the hint that it must get.


WRONG_LAB_ANSWERS: dict[str, list[tuple[Any, str]]] = {
    "19.1": [(32, "80 % of the bandwidth"), (20, "50 %"), (39, "98 %"), (41, "one fewer"), (2.5, "whole")],
    "19.2": [(3, "90 % of what"), (1, "30 %"), (5, "one fewer"), ("four", "whole")],
    "19.3": [
        ((12, 3), "86 % of the bandwidth"),
        ((8, 5), "last load"),
        ((12, 5), "60 loads are in flight"),
        ((40, 1), "more than 12"),
        ((6, 7), "last load"),
        (40, "two values"),
    ],
    "19.4": [
        ((600, 1200), "would allow more"),
        ((300, 600), "with 16 × 16"),
        ((600, 600), "with 32 × 32"),
        ((2400, 4800), "would allow more"),
        (600, "two values"),
    ],
    "19.5": [
        ((32, 8), "And threads?"),
        ((8, 8), "And threads?"),
        ((8, 1), "1024 threads"),
        ((4, 2), "256 threads"),
        (8, "two values"),
    ],
    "20.1": [((8, 8), "in v1"), ((4, 4), "in v0"), ((1, 1), "in v0"), (8, "two values"), ((8.5, 4), "whole")],
    "20.2": [((4, 1), "stride of 8"), ((8, 33), "stride of 33"), ((32, 1), "stride of 8"), (8, "two values")],
    "20.3": [((16, 8), "wavefronts?"), ((8, 8), "first time"), ((32, 16), "wavefronts?"), (8, "two values")],
    "20.4": [
        (_every_other_tree, "8 warps; 4 are enough"),
        (lambda t, s: (2 * t << s, (2 * t + 1) << s) if 2 * t << s < 256 else None, "2 wavefronts to store"),
        (lambda t, s: (t, t + (128 >> s)) if t < 128 >> s and s < 7 else None, "without 128"),
        (lambda t, s: (t, (t + (128 >> s)) % 256), "while another writes"),
        (lambda t, s: (t, t + 128) if t < 128 else None, "twice"),
        (lambda t, s: (0, t + 1) if t < 2 else None, "same element"),
        (lambda t, s: (t, t + 200), "beyond"),
        (lambda t, s: t, "is not (element, other)"),
        (lambda t: None, "cannot be graded"),
        (256, "function"),
    ],
    "20.5": [
        ((2, 8), "tiled"),
        ((32, 16), "4 × 4"),
        ((16, 8), "tiled"),
        ((32, 2), "4 × 4"),
        (8, "two values"),
    ],
    "21.1": [
        ((4096, 256, 16, 1), "per warp"),
        ((256, 8, 1, 1), "per thread"),
        ((4096, 128, 256, 1), "per block"),
        ((4096, 128, 16, 16), "per grid"),
        ((4096, 16, 1), "four values"),
        (4096, "four values"),
    ],
    "21.2": [
        ((3072, 0), "places"),
        ((2048, 3072), "finds no place"),
        ((2048, 0), "lost"),
        (2048, "two values"),
    ],
    "21.3": [
        ((10, 17), "ended too"),
        ((22, 26), "one after the other"),
        ((20, 27), "every child"),
        (22, "two"),
    ],
    "21.4": [(12, "4,096 launches"), (24, "do they fit"), (10, "more places"), (2048, "between")],
    "21.5": [
        (("thread", 1), "launches are lost"),
        (("block", 1), "where 12 are possible"),
        (("grid", 1), "where 12 are possible"),
        (("grid", 512), "own items"),
        (("nobody", 1), "where 12 are possible"),
        (("everybody", 1), "is none of"),
        ("grid", "two values"),
    ],
    "22.1": [
        (1280, "fence gone too"),
        (500, "one part"),
        (180, "one part"),
        (720, "before and after"),
    ],
    "22.2": [
        ({"c"}, "of those left out 1"),
        ({"a", "c", "e"}, "In whose scope"),
        ("bce", "within the wait's scope"),
        ({"c", "d", "e"}, "besides its own word"),
        ({"c", "x"}, "'x' is none of a, b"),
        (2, "give the letters"),
    ],
    "22.3": [((24, 8), "24 tiles?"), ((48, 8), "48 tiles?"), ((72, 1), "1 groups?"), (72, "two values")],
    "22.4": [
        ((128, 48), "Is there a row for each"),
        ((96, 128), "Is there a row for each"),
        ((96, 96), "with clusters of 8?"),
        ((132, 132), "with clusters of 16?"),
    ],
    "22.5": [
        (0.0031, "percent are asked for"),
        (31, "how many bytes"),
        (3.1, "how many bytes"),
        ("a lot", "percent"),
    ],
}
