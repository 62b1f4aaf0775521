"""A layer's kernels in a description: what a product does besides, attention and its products, row kernels.

Example:
    [[stages]]
    name = "qkv"
    m = 1024                  # with n, k and tile
    bias = true
    rope = { heads = 40, head_dim = 128, first = 512 }
    cache = { columns = 1024, first = 512, capacity = 4096 }
    [[stages]]
    name = "attention"
    tile = [128, 128]         # query rows, keys
    attention = { length = 1024, heads = 32, kv_heads = 8, cached = 512, capacity = 4096 }
    [[stages]]
    name = "norm"
    tile = [8]                # rows
    norm = { rows = 1024, columns = 4096 }

Where decode attention names no splits, there are as many as keep the device busy (`best_splits`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

from wavesim.model.device import Device
from wavesim.model.kernel import Block, Work
from wavesim.model.regions import MOST_INDEX
from wavesim.safe_io.bounds import whole
from wavesim.work.attention import Attention, AttentionDecode, best_splits
from wavesim.work.attention.head_product import HeadProduct, Product
from wavesim.work.description.described_field import Field
from wavesim.work.description.layer_fields import (
    ATTENTION,
    CACHE,
    COPY,
    DECODE,
    HEAD_PRODUCT,
    NORM,
    ROPE,
    SOFTMAX,
)
from wavesim.work.description.table import DescriptionTable
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.epilogue import CacheStore, Rope
from wavesim.work.rows import Copy, DropoutPlace, Norm, NormKind, Softmax

EPILOGUES = ("bias", "residual", "rope", "cache")  # of a product, by their fields
SAID = (
    "m",
    "n",
    "k",
    "grid",
    "flops",
    "bytes",
    "split_k",
    "activation",
    "convolution",
    "carveout",
    *EPILOGUES,
)
USUAL_HEAD_DIM = 128
# Fields whose values have other names.
NAMES = {"capacity": "kv_rows", "causal": "is_causal", "rows": "m", "residual": "has_residual"}
WORDS: Mapping[str, Any] = {"product": Product, "kind": NormKind, "dropout_place": DropoutPlace}
NUMBERS = {"epsilon": (1e-12, 1.0), "dropout": (0.0, 1.0), "scale": (1e-6, 1e6)}  # their bounds


@dataclass(frozen=True)
class WorkForm:
    """A table that says what a kernel is: its work, its fields, and a tile's numbers by the work's names."""

    work: type[Any]
    fields: tuple[Field, ...]
    tile: tuple[str, ...]
    tile_text: str

    @property
    def names(self) -> dict[str, str]:
        """Of the work's values, by field."""
        return {one.name: NAMES.get(one.name, one.name) for one in self.fields}

    @property
    def usual(self) -> dict[str, Any]:
        """The work's values where they are not given."""
        usual = {one.name: one.default for one in fields(self.work)}
        return usual | {"sequences": 1} if "sequences" in usual else usual


WORK_FORMS: Mapping[str, WorkForm] = {
    "attention": WorkForm(Attention, ATTENTION, ("tile_m", "tile_n"), "[query rows, keys]"),
    "decode": WorkForm(AttentionDecode, DECODE, ("tile_n",), "[keys]"),
    "head_product": WorkForm(
        HeadProduct, HEAD_PRODUCT, ("tile_m", "tile_n", "tile_k"), "[query rows, columns, k-block]"
    ),
    "norm": WorkForm(Norm, NORM, ("tile_m",), "[rows]"),
    "softmax": WorkForm(Softmax, SOFTMAX, ("tile_m",), "[query rows]"),
    "copy": WorkForm(Copy, COPY, ("tile_m", "tile_n"), "[rows, columns]"),
}


def epilogue_of(stage: DescriptionTable, m: int) -> dict[str, Any]:
    """What a product of m rows does with its sums, by `Gemm`'s names.

    Raises `RecordingError` or `DescriptionError`.
    """
    found: dict[str, Any] = {f"has_{name}": bool(stage.optional(name, bool)) for name in EPILOGUES[:2]}
    if stage.has("rope"):
        own = _inner(stage, "rope", ROPE)
        sizes = own.required("heads", int), _given(own, "head_dim", USUAL_HEAD_DIM)
        found["rope"] = Rope(*sizes, _given(own, "rows", m), _given(own, "first", 0))
    if stage.has("cache"):
        own = _inner(stage, "cache", CACHE)
        rows, first = _given(own, "rows", m), _given(own, "first", 0)
        capacity = _given(own, "capacity", first + rows)
        found["cache"] = CacheStore(own.required("columns", int), rows, capacity, first)
    return found


def layer_work_of(name: str, block: Block, stage: DescriptionTable, device: Device) -> Work | None:
    """The attention, product by heads or row kernel that a stage's table describes; None where it has none.

    Raises `RecordingError` or `DescriptionError`.
    """
    kinds = [kind for kind in WORK_FORMS if stage.has(kind)]
    if not kinds:
        return None
    for other in (*kinds[1:], *SAID):
        if stage.has(other):
            raise stage.wrong(other, f"{kinds[0]} says what the kernel is; leave one of them out")
    form = WORK_FORMS[kinds[0]]
    own = _inner(stage, kinds[0], form.fields)
    tile = stage.integers("tile", len(form.tile), len(form.tile), form.tile_text) or ()
    values = dict(zip(form.tile, tile, strict=False)) | _values(own, form)
    element = stage.word("element", ("fp16", "bf16")) or "fp16"
    work: Work = form.work(name=name, dtype=element, block=block, **values)
    if isinstance(work, AttentionDecode) and not own.has("splits"):
        return replace(work, splits=best_splits(work, device))
    return work


def _values(own: DescriptionTable, form: WorkForm) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one, name in zip(form.fields, form.names.values(), strict=True):
        if one.name in WORDS:
            found[name] = _word(own, one, form.usual[name])
        elif one.name in NUMBERS:
            given = own.number(one.name, *NUMBERS[one.name])
            found[name] = form.usual[name] if given is None else float(given)
        elif one.default == "required":
            found[name] = _sized(own, one.name, own.required(one.name, int))
        else:
            found[name] = _given(own, one.name, form.usual[name])
    return found


def _word(own: DescriptionTable, one: Field, usual: Any) -> Any:
    if one.default == "required":
        own.required(one.name, str)
    return own.word(one.name, get_args(WORDS[one.name])) or usual


def key_weights(work: object) -> tuple[float, ...]:
    """One per tile row of causal attention: how many blocks of keys it reads; of other work none."""
    if not isinstance(work, Attention) or not work.is_causal:
        return ()
    return tuple(float(work.items(0, y, 0)) for y in range(work.grid.y))


def epilogue_lines(gemm: Gemm) -> Iterator[str]:
    """A product's lines of a stage's table that `epilogue_of` reads."""
    for name in EPILOGUES[:2]:
        if getattr(gemm, f"has_{name}"):
            yield f"{name} = true"
    for name, part, known in (("rope", gemm.rope, ROPE), ("cache", gemm.cache, CACHE)):
        if part is not None:
            yield _table_line(name, {one.name: getattr(part, one.name) for one in known})


def layer_work_lines(work: Work) -> tuple[str, ...]:
    """The lines that `layer_work_of` reads back as this work; none where a file cannot say it."""
    for kind, form in WORK_FORMS.items():
        if not isinstance(work, form.work):
            continue
        said = {*form.tile, *form.names.values(), "name", "dtype", "block"}
        if any(getattr(work, name) != usual for name, usual in form.usual.items() if name not in said):
            return ()
        values = {name: getattr(work, value) for name, value in form.names.items()}
        tile = ", ".join(str(getattr(work, name)) for name in form.tile)
        return (f"tile = [{tile}]", _table_line(kind, values), f'element = "{work.dtype}"')
    return ()


def _table_line(name: str, values: Mapping[str, object]) -> str:
    """An inline table: numbers, words, true and false."""
    said = ", ".join(f"{key} = {_text(value)}" for key, value in values.items())
    return f"{name} = {{ {said} }}"


def _text(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def _inner(stage: DescriptionTable, name: str, known: tuple[Field, ...]) -> DescriptionTable:
    return DescriptionTable.of(stage.path, f"{stage.where}{name}.", stage.values[name], known)


def _given(table: DescriptionTable, name: str, usual: Any) -> Any:
    """A value of the kind of the usual one, which stands in where it is not there."""
    return _sized(table, name, table.required(name, type(usual))) if table.has(name) else usual


def _sized(table: DescriptionTable, name: str, value: Any) -> Any:
    """A size that an index reaches, or true or false."""
    return value if isinstance(value, bool) else whole(table.field(name), value, 0, MOST_INDEX)
