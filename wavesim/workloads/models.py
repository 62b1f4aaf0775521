"""Published models by name, as the command line and the workloads know them, from `models.toml`.

Example: `model_named("llama-3-8b")` has a residual stream of 4096 columns and an MLP 14336 wide; its `layer`
has 32 query heads over 8 KV heads of size 128, RMSNorm and RoPE, 32 times.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from wavesim.errors import DescriptionError
from wavesim.safe_io.bounds import shown, whole
from wavesim.safe_io.documents import read_toml
from wavesim.work.gemm import Activation
from wavesim.work.rows import NormKind

FILE = Path(__file__).with_name("models.toml")
Dtype = Literal["fp16", "bf16"]
Bias = Literal["none", "qkv", "all"]


@dataclass(frozen=True)
class TransformerShape:
    """What a layer has besides its MLP: `heads` query heads over `kv_heads` of size `head_dim`.

    The model has `layers` of them. `bias` says which products have one, `has_rope` whether queries and keys
    are rotated, `tp` over how many GPUs of a host the model is usually cut. `source` says where that stands.
    """

    heads: int
    kv_heads: int
    head_dim: int
    layers: int
    norm: NormKind
    bias: Bias
    has_rope: bool
    tp: int
    source: str

    def __post_init__(self) -> None:
        if self.bias not in get_args(Bias):
            raise DescriptionError(
                f"bias is {shown(self.bias)}; it must be one of {', '.join(get_args(Bias))}"
            )


@dataclass(frozen=True)
class Model:
    """A model's MLP: `hidden` wide outside, `ffn` inside, and its layer where that is described.

    `source` says where the MLP's sizes stand.
    """

    name: str
    hidden: int
    ffn: int
    activation: Activation
    dtype: Dtype
    source: str
    layer: TransformerShape | None = None

    def share(self, tp: int) -> int:
        """Columns of the MLP on one of `tp` GPUs. Raises `DescriptionError` unless all have as many."""
        whole("tp", tp, least=1, most=self.ffn)
        if self.ffn % tp:
            raise DescriptionError(f"tp is {tp}; it must divide the {self.ffn} columns of {self.name}'s MLP")
        return self.ffn // tp


@cache
def all_models() -> dict[str, Model]:
    """All of them by name."""
    return {name: _model(name, entry) for name, entry in read_toml(FILE).items()}


def _model(name: str, entry: dict[str, object]) -> Model:
    layer = entry.pop("layer", None)
    shape = TransformerShape(**layer) if isinstance(layer, dict) else None
    return Model(name, layer=shape, **entry)  # type: ignore[arg-type]  # a file of ours; a test reads it all


def model_named(name: str) -> Model:
    """The model of that name. Raises `DescriptionError`."""
    if name not in all_models():
        raise DescriptionError(f"model is {shown(name)}; known are {', '.join(all_models())}")
    return all_models()[name]


def layered_models() -> dict[str, Model]:
    """Those whose whole layer is described, by name."""
    return {name: model for name, model in all_models().items() if model.layer is not None}
