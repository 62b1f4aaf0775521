"""Models as the command line names them: their MLP's dimensions, with a source for each.

Example: `mlp_of("gpt3-145b", 8)` is GPT-3's MLP on one of eight GPUs: (M, 12288) x (12288, 6144), GELU, x
(6144, 12288). Tensor parallelism cuts the MLP's width; the residual stream stays whole.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wavesim.crossover.family import Dtype, MlpFamily, Tile
from wavesim.errors import DescriptionError
from wavesim.guard.bounds import shown, whole
from wavesim.guard.documents import read_toml
from wavesim.model.device import Device
from wavesim.model.kernel import GATED, Activation

FILE = Path(__file__).with_name("models.toml")
KERNELS = Path(__file__).with_name("kernels.toml")


@dataclass(frozen=True)
class Model:
    """A model's MLP: `hidden` wide outside, `ffn` inside; `source` says where that stands."""

    hidden: int
    ffn: int
    activation: Activation
    dtype: Dtype
    source: str


@cache
def all_models() -> dict[str, Model]:
    """All of them by name."""
    return {name: Model(**entry) for name, entry in read_toml(FILE).items()}


def mlp_of(name: str, tp: int, tile: Tile, backend: str = "") -> MlpFamily:
    """A model's MLP on one of `tp` GPUs, in tiles of (tile_m, tile_n). Raises `DescriptionError`."""
    if name not in all_models():
        raise DescriptionError(f"model is {shown(name)}; known are {', '.join(all_models())}")
    model = all_models()[name]
    whole("tp", tp, least=1, most=model.ffn)
    if model.ffn % tp:
        raise DescriptionError(f"tp is {tp}; it must divide the {model.ffn} columns of {name}'s MLP")
    share = model.ffn // tp
    columns = 2 * share if model.activation in GATED else share
    title = f"{name} MLP" + (f", 1 of {tp} GPUs" if tp > 1 else "")
    return MlpFamily(title, columns, model.hidden, tile, model.activation, model.dtype, backend)


def backend_of(device: Device) -> str:
    """The backend whose kernels were timed on GPUs like this one; "" where there is none."""
    kernels = read_toml(KERNELS).items()
    return next(
        (name for name, one in kernels if tuple(one["compute_capability"]) == device.compute_capability), ""
    )
