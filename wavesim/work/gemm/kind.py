"""GEMMs in descriptions and predictions: sizes in the stage's own table, and what an epilogue does besides.

Example:
    [[stages]]
    name = "qkv"
    m = 1024                  # with n, k and tile
    n = 6144
    k = 4096
    tile = [128, 256, 64]
    bias = true
    rope = { heads = 40, head_dim = 128, first = 512 }
    cache = { columns = 1024, first = 512, capacity = 4096 }
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wavesim.model.kernel import Kernel, Work
from wavesim.model.regions import MOST_INDEX
from wavesim.safe_io.bounds import whole
from wavesim.work.description.fields import read_fields
from wavesim.work.description.table import DescriptionTable
from wavesim.work.gemm import ACTIVATIONS, ELEMENT_BYTES, Gemm
from wavesim.work.gemm.epilogue import CacheStore, Rope
from wavesim.work.gemm.law import GemmCosts
from wavesim.work.kind import ELEMENTS, SaidStage, WorkKind, table_line, value_text

FIELDS = Path(__file__).with_name("fields.toml")
BYTES = {"fp16": 2, "bf16": 2, "fp8": 1, "int8": 1, "tf32": 4, "fp32": 4, "fp64": 8}
SIZES = ("m", "n", "k")
USUAL_TILE_K = 32  # columns of a k-block, as of `Gemm`
USUAL_HEAD_DIM = 128


class GemmKind(WorkKind):
    """A stage with m, n and k: a `Gemm` of 16-bit elements in known tiles, else its launch."""

    def is_said(self, table: DescriptionTable) -> bool:
        """Whether a size is there."""
        return table.has(*SIZES)

    def read(self, said: SaidStage) -> Work:
        """A `Gemm`; a bare kernel where its elements or its tiles are not known."""
        gemm, table = _gemm(said), said.table
        if table.has("tile"):
            said.require_grid(gemm.grid, "m, n, k")
        blocks = gemm.grid if table.has("tile") else said.grid()
        element = table.values.get("element", ELEMENTS[0])
        if element in ELEMENTS and table.has("tile"):
            return gemm
        flops = gemm.flops if element in ELEMENTS else 0  # no peak rate is known of other elements
        size = BYTES[element]
        operands, outputs = gemm.m * gemm.k + gemm.k * gemm.n, gemm.m * gemm.output_columns
        outputs *= 2 if gemm.has_residual else 1
        moved = size * operands + max(size, ELEMENT_BYTES) * outputs  # narrower ones are written as 16 bits
        counts = flops // blocks.size, moved // blocks.size
        return Kernel(said.name, blocks, said.block, *counts, carveout=said.carveout)

    def lines(self, work: Any) -> Iterator[str]:
        """Layouts are left out, as no prediction reads them."""
        yield from (f"{name} = {getattr(work, name)}" for name in SIZES)
        yield f"tile = [{work.tile_m}, {work.tile_n}, {work.tile_k}]"
        yield f'element = "{work.dtype}"'
        values = {"activation": work.activation, "split_k": work.split_k if work.split_k > 1 else None}
        values |= {name: getattr(work, f"has_{name}") or None for name in ("bias", "residual")}
        yield from (f"{name} = {value_text(value)}" for name, value in values.items() if value is not None)
        for name, part in (("rope", work.rope), ("cache", work.cache)):
            if part is not None:
                yield table_line(
                    name,
                    {
                        read_field.name: getattr(part, read_field.name)
                        for read_field in read_fields(FIELDS)[name]
                    },
                )


GEMM = GemmKind(Gemm, FIELDS, law=GemmCosts)


def _gemm(said: SaidStage) -> Gemm:
    """The product that m, n and k describe, in the smallest tiles where none are given."""
    table = said.table
    for other in ("flops", "bytes"):
        if table.has(other):
            raise table.wrong(other, "m, n and k say it; leave it out")
    for size in SIZES:
        if not table.has(size):
            raise table.missing(size, "; m, n and k are given together")
    m, n, k = (table.required(size, int) for size in SIZES)
    tile = table.integers("tile", 2, 3, "[rows, columns] or [rows, columns, k-block]")
    tile_m, tile_n, tile_k = [*(tile or [2, 2]), USUAL_TILE_K][:3]
    element = table.word("element", tuple(BYTES))
    return Gemm(
        said.name,
        m,
        n,
        k,
        tile_m,
        tile_n,
        tile_k,
        split_k=said.split_k,
        dtype=element if element in ELEMENTS else "fp16",
        activation=table.word("activation", ACTIVATIONS),
        block=said.block,
        carveout=said.carveout,
        **_epilogue(said, m),
    )


def _epilogue(said: SaidStage, m: int) -> dict[str, Any]:
    """What a product of m rows does with its sums, by `Gemm`'s names."""
    parts: dict[str, Any] = {
        f"has_{name}": bool(said.table.optional(name, bool)) for name in ("bias", "residual")
    }
    known = read_fields(FIELDS)
    if said.table.has("rope"):
        own = said.inner("rope", known["rope"])
        sizes = _sizes(own, {"head_dim": USUAL_HEAD_DIM, "rows": m, "first": 0})
        parts["rope"] = Rope(own.required("heads", int), sizes["head_dim"], sizes["rows"], sizes["first"])
    if said.table.has("cache"):
        own = said.inner("cache", known["cache"])
        sizes = _sizes(own, {"rows": m, "first": 0})
        capacity = _sizes(own, {"capacity": sizes["first"] + sizes["rows"]})["capacity"]
        parts["cache"] = CacheStore(own.required("columns", int), sizes["rows"], capacity, sizes["first"])
    return parts


def _sizes(own: DescriptionTable, usual: Mapping[str, int]) -> dict[str, int]:
    """Sizes that an index reaches, the usual where they are not there."""
    return {
        name: whole(own.field(name), own.required(name, int), 0, MOST_INDEX) if own.has(name) else size
        for name, size in usual.items()
    }
