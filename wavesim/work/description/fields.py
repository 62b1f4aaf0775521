"""The fields of a description: what each means, its unit, and what a prediction loses where it is left out.

Example: `wait` says where a kernel's blocks wait. Without it the interval of a prediction covers three
places. `docs/describe-your-kernels.md` has these tables; a test keeps the two in step.
"""

from collections.abc import Mapping

from wavesim.work.description.described_field import Field
from wavesim.work.description.layer_fields import (
    ATTENTION,
    CACHE,
    COPY,
    DECODE,
    HEAD_PRODUCT,
    LAYER_STAGES,
    NORM,
    ROPE,
    SOFTMAX,
)

TOP = (
    Field(
        "device",
        "name, path or table",
        "the GPU: a name that `wavesim devices` lists, a device file of your own (`.toml`, relative to this "
        "file), or a table `[device]` with that file's fields",
        "required",
        "-",
        "",  # the default device's name
    ),
    Field(
        "stages",
        "tables",
        "one `[[stages]]` per kernel, in launch order",
        "required",
        "-",
        "one [[stages]] table per kernel",
    ),
    Field(
        "dependencies",
        "tables",
        "one `[[dependencies]]` per kernel that reads others' tiles",
        "required",
        "-",
        "one [[dependencies]] table per consumer",
    ),
    Field("plans", "table", "what `compare` sets side by side", "row and tile, in row order", "-", "[plans]"),
    Field("gpus", "table", "the GPUs of one host, where there are several", "one GPU", "-", "[gpus]"),
    Field(
        "collectives",
        "tables",
        "one `[[collectives]]` per all-reduce, reduce-scatter or all-gather; with `[gpus]`",
        "none",
        "-",
        "one [[collectives]] table per collective",
    ),
)
GPUS = (
    Field(
        "count",
        "GPUs",
        "that run these kernels, each the same on its own part of the data",
        "required",
        "-",
        "count = 2",
    ),
    Field(
        "link",
        "name or path",
        "between any two of them: the name of a device whose link was measured, or a link file of your own "
        "(`.toml`, relative to this file)",
        "the device's",
        "required where none was measured",
        'link = "link.toml"',
    ),
    Field(
        "late_us",
        "us",
        "by how much each GPU starts later than the first to start, in the order of their numbers",
        "0 each",
        "-",
        "late_us = [0, 20.0]",
    ),
)
COLLECTIVES = (
    Field(
        "stage",
        "stage",
        "whose output is reduced; of an all-gather, whose A is gathered",
        "required",
        "-",
        'stage = "gemm2"',
    ),
    Field("kind", "word", "all-reduce, reduce-scatter or all-gather", "required", "-", 'kind = "all-reduce"'),
    Field(
        "shots",
        "word",
        "of an all-reduce: two-shot (each GPU adds its share of the tiles and stores the sums on all) or "
        "one-shot "
        "(each gets all tiles and adds them itself)",
        "two-shot",
        "-",
        'shots = "one-shot"',
    ),
)
STAGES = (
    Field("name", "text", "how dependencies call it", "required", "-", 'name = "gemm1"'),
    Field(
        "grid",
        "tiles",
        "tile columns, tile rows and, if K is split, its splits; of a persistent kernel its tiles, not its "
        "blocks",
        "from `m`, `n` and `tile`",
        "required where these are not given",
        "grid = [24, 8]",
    ),
    Field("threads", "threads", "of a block", "required", "-", "threads = 256"),
    Field("registers", "registers", "of a thread, as compiled", "required", "-", "registers = 232"),
    Field(
        "shared_bytes",
        "bytes",
        "shared memory of a block, static and dynamic",
        "required",
        "-",
        "shared_bytes = 98304",
    ),
    Field(
        "kernel_us",
        "us",
        "the kernel alone, measured; of all stages or of none",
        "a roofline",
        "real kernels reach 40 to 95 % of a roofline, so gains are a rough guess; `predict` requires it",
        "kernel_us = 320.0",
    ),
    Field(
        "tile_weights",
        "ratios",
        "how long tiles take beside each other, of any scale: one number per tile row, or per block, row "
        "after row; causal attention with 128 x 128 blocks: [1, 2, 3, ...]. `kernel_us` is shared out by "
        "them",
        "all alike; of causal `attention` the keys that they read",
        "of tiles that differ, when they end and what waits for them is off",
        "tile_weights = [1, 2, 3, 4]",
    ),
    Field(
        "m",
        "rows",
        "of the output and of A; with `n` and `k`",
        "not a GEMM",
        "what it reads from the L2 and DRAM is unknown",
        "m = 1024",
    ),
    Field("n", "columns", "of the output and of B; with `m` and `k`", "not a GEMM", "as `m`", "n = 6144"),
    Field(
        "k",
        "columns",
        "of A, the length of the main loop; with `m` and `n`",
        "not a GEMM",
        "as `m`",
        "k = 12288",
    ),
    Field(
        "tile",
        "rows, columns, k-block",
        "of a block's output, and the step along K; with `m`, `n` and `k`, or `convolution`",
        "not known",
        "`grid` is required, and L2 and DRAM are left out; a `convolution` requires it",
        "tile = [128, 256, 64]",
    ),
    Field(
        "convolution",
        "table",
        "an implicit GEMM: its images and filters, as below; not with `m`, `n` and `k`",
        "not a convolution",
        "what it reads is unknown, and its halo has to be written into `needs`",
        "convolution = { images = 8, height = 28, width = 28, channels = 128, filters = 128 }",
    ),
    Field(
        "element",
        "word",
        "of the operands: fp16, bf16, fp8, int8, tf32, fp32 or fp64",
        "fp16",
        "none for fp16 and bf16; of others no roofline is known",
        'element = "bf16"',
    ),
    Field(
        "activation",
        "word",
        "gelu, gelu-exact, relu, silu; swiglu, geglu and geglu-exact make one column of two",
        "none",
        "-",
        'activation = "gelu"',
    ),
    Field("split_k", "splits", "of K, each a block of its own", "1", "-", "split_k = 2"),
    Field("bias", "true or false", "whether a product adds one", "false", "-", "bias = true"),
    Field(
        "residual",
        "true or false",
        "whether a product adds one, of its output's size; what makes it stands in `needs`, as `A` does",
        "false",
        "reading it is left out of the roofline",
        "residual = true",
    ),
    *LAYER_STAGES,
    Field(
        "pipeline_depth",
        "k-blocks",
        "loaded ahead of the one that is computed (pipeline stages)",
        "not known",
        "the interval covers shallow and deep pipelines",
        "pipeline_depth = 4",
    ),
    Field(
        "wait",
        "word",
        "where a block waits for tiles: producer-warp (a warp that only loads, tile by tile), block-barrier "
        "(all warps at a barrier of the block, tile by tile), before-main-loop (once, for all it reads) or "
        "prefetched (semaphores are loaded ahead, as in wavesim's kernels)",
        "not known",
        "the interval covers the first three",
        'wait = "block-barrier"',
    ),
    Field(
        "persistent",
        "true or false",
        "as many blocks as fit are launched, and each takes tile after tile",
        "not known",
        "the interval covers both",
        "persistent = true",
    ),
    Field(
        "tests_each_k_block",
        "true or false",
        "at a block barrier, every k-block works out by a division whether to wait; false where a counter or "
        "an outer loop says so",
        "not known",
        "the interval covers both",
        "tests_each_k_block = true",
    ),
    Field(
        "carveout",
        "word",
        "full (the largest carve-out of shared memory) or default (the smallest that holds its blocks)",
        "full",
        "another kernel's blocks may not fit beside it",
        'carveout = "default"',
    ),
    Field(
        "flops",
        "operations",
        "of the whole kernel, where `m`, `n` and `k` do not say it",
        "not known",
        "no roofline; an impossible `kernel_us` is not noticed",
        "flops = 155e9",
    ),
    Field(
        "bytes",
        "bytes",
        "that the whole kernel reads and writes, where `m`, `n` and `k` do not say it",
        "not known",
        "the roofline has arithmetic alone",
        "bytes = 300e6",
    ),
)
CONVOLUTION = (
    Field("images", "images", "of the batch", "required", "-", "images = 8"),
    Field("height", "pixels", "of an image", "required", "-", "height = 28"),
    Field("width", "pixels", "of an image", "required", "-", "width = 28"),
    Field("channels", "channels", "of the images: a multiple of 8 (NHWC)", "required", "-", "channels = 128"),
    Field("filters", "channels", "of the output: a multiple of 8", "required", "-", "filters = 128"),
    Field("kernel_size", "taps", "of the filter in a row, and rows of it: odd", "3", "-", "kernel_size = 3"),
    Field("stride", "pixels", "1 or 2", "1", "-", "stride = 2"),
    Field("padding", "pixels", "zeros around an image", "half of `kernel_size`", "-", "padding = 1"),
    Field("column_padding", "pixels", "zeros to its left and right", "`padding`", "-", "column_padding = 0"),
    Field(
        "packs_rows",
        "true or false",
        "whether a k-block is a row of taps: of few channels, `column_padding` 0",
        "false",
        "-",
        "packs_rows = true",
    ),
    Field("bias", "true or false", "whether one is added", "false", "-", "bias = true"),
    Field("residual", "true or false", "whether one is added", "false", "-", "residual = true"),
    Field("dilation", "pixels", "1: no kernel spreads its taps", "1", "-", "dilation = 1"),
    Field("groups", "groups", "1: every filter reads all channels", "1", "-", "groups = 1"),
)
DEPENDENCIES = (
    Field("consumer", "stage", "the kernel that reads", "required", "-", 'consumer = "gemm2"'),
    Field(
        "needs",
        "tile sets",
        "`STAGE[COLUMNS, ROWS]` that its tile (x, y) reads: integers, x, y, `+`, `-`, `*`, `//`, `min` and "
        "`max`; a slice is read in step with the main loop. Of a `convolution` a stage's name alone: first "
        "the one that computes its images, with the halo, then the one that computes its residual",
        "required",
        "-",
        'needs = ["gemm1[:, y]"]',
    ),
)
PLANS = (
    Field(
        "sync",
        "words",
        "plans as `--sync` takes them: row, tile, pdl+row, stream-k, ...",
        '["row", "tile"]',
        "-",
        'sync = ["row", "tile"]',
    ),
    Field("order", "word", "of the tiles, as `--order` takes it", "row", "-", 'order = "grouped:8"'),
)
SECTIONS: Mapping[str, tuple[Field, ...]] = {
    "": TOP,
    "stages": STAGES,
    "convolution": CONVOLUTION,
    "rope": ROPE,
    "cache": CACHE,
    "attention": ATTENTION,
    "decode": DECODE,
    "head_product": HEAD_PRODUCT,
    "norm": NORM,
    "softmax": SOFTMAX,
    "copy": COPY,
    "dependencies": DEPENDENCIES,
    "plans": PLANS,
    "gpus": GPUS,
    "collectives": COLLECTIVES,
}
COLUMNS = ("field", "unit", "meaning", "default", "without it")


def names(fields: tuple[Field, ...]) -> tuple[str, ...]:
    """Of some fields."""
    return tuple(field.name for field in fields)


def example(name: str) -> str:
    """What to write for a field; "" where it depends on the catalogue."""
    return next(field.example for fields in SECTIONS.values() for field in fields if field.name == name)


def field_table(section: str) -> str:
    """A section's fields as Markdown."""
    return fields_table(SECTIONS[section])


def fields_table(fields: tuple[Field, ...]) -> str:
    """Some fields as Markdown."""
    rows = [(f"`{field.name}`", field.unit, field.meaning, field.default, field.absence) for field in fields]
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
