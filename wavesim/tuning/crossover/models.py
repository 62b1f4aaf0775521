"""Models as the command line names them: their MLP's dimensions, with a source for each.

Example: `mlp_of("gpt3-145b", 8)` is GPT-3's MLP on one of eight GPUs: (M, 12288) x (12288, 6144), GELU, x
(6144, 12288). Tensor parallelism cuts the MLP's width; the residual stream stays whole.
"""

from pathlib import Path

from wavesim.model.device import Device
from wavesim.model.kernel import GATED
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.documents import read_toml
from wavesim.tuning.crossover.family import MlpFamily, Tile
from wavesim.workloads.models import model_named

KERNELS = Path(__file__).with_name("kernels.toml")


@typed
def mlp_of(name: str, tp: int, tile: Tile, backend: str = "") -> MlpFamily:
    """A model's MLP on one of `tp` GPUs, in tiles of (tile_m, tile_n). Raises `DescriptionError`."""
    model = model_named(name)
    share = model.share(tp)
    columns = 2 * share if model.activation in GATED else share
    title = f"{name} MLP" + (f", 1 of {tp} GPUs" if tp > 1 else "")
    return MlpFamily(title, columns, model.hidden, tile, model.activation, model.dtype, backend)


def backend_of(device: Device) -> str:
    """The backend whose kernels were timed on GPUs like this one; "" where there is none."""
    kernels = read_toml(KERNELS).items()
    return next(
        (
            name
            for name, kernel in kernels
            if tuple(kernel["compute_capability"]) == device.compute_capability
        ),
        "",
    )
