"""Convolutions as PyTorch runs them: cuDNN's, channels last, the fastest that `cudnn.benchmark` finds.

Example: `TorchConvolutions(operands).run()` computes what the stages do, on the same arrays: NHWC images are
a torch tensor with channels last as they lie, and so are filters of (filters, taps, channels). A bias goes
into the convolution; residual and ReLU are torch's own kernels behind it. Where ours packs images of few
colours first, torch's convolution gets the colours as they are.
"""

from typing import Any, cast

from wavesim.model.buffers import uses_of
from wavesim.model.stage import Stage
from wavesim.work.convolution import Conv2D
from wavesim_gpu.bench.libraries.torch_chain import require_torch
from wavesim_gpu.run.operands import Operands


class TorchConvolutions:
    """A pipeline of convolutions over the operands' inputs and weights. Raises `DeviceError`."""

    def __init__(self, operands: Operands) -> None:
        self._torch, self._operands = require_torch(), operands
        self._torch.backends.cudnn.benchmark = True
        uses = uses_of(operands.pipeline)
        self._places = {(use.stage, use.operand): use.view.buffer for use in uses}
        self._given = {key: self._tensor(key, array) for key, array in operands.arrays.items()}
        for stage in operands.pipeline.stages:
            if getattr(stage.work, "packs_rows", False):
                self._unpack(stage, cast("Conv2D", stage.work))

    def run(self) -> dict[str, Any]:
        """Every stage's outputs (pixels, filters), by buffer."""
        made: dict[str, Any] = {}
        for stage in self._operands.pipeline.stages:
            if not stage.work.multiplies_weights:  # packs images
                continue
            given = {name: self._read(stage, name, made) for name in stage.work.operands}
            made[self._places[stage.name, "c"]] = self._computed(cast("Conv2D", stage.work), given)
        return made

    def _computed(self, work: Conv2D, given: dict[str, Any]) -> Any:
        size, left, width = work.kernel_size, work.window.left, work.width
        if work.packs_rows:
            left = work.window.padding
            width -= 2 * left
        images = given["a"].view(work.images, work.height, width, -1).permute(0, 3, 1, 2)
        filters = given["b"].view(work.filters, size, size, -1).permute(0, 3, 1, 2)
        bias = given["bias"].reshape(-1) if work.has_bias else None
        out = self._torch.nn.functional.conv2d(
            images, filters, bias, stride=work.stride, padding=(work.window.padding, left)
        )
        rows = out.permute(0, 2, 3, 1).reshape(work.pixels, work.filters)
        if work.has_residual:
            rows = rows.add_(given["residual"])
        return rows.relu_() if work.activation == "relu" else rows

    def _unpack(self, stage: Stage, work: Conv2D) -> None:
        """Images before they are packed, and the filters for as many colours as these have."""
        packed = self._places.pop((stage.name, "a"))
        pack = next(owner for (owner, _), buffer in self._places.items() if buffer == packed)
        images, size = self._given[pack, "x"], work.kernel_size
        colours = images.shape[1] // (work.width - 2 * work.window.padding)
        filters = self._given[stage.name, "b"].view(work.filters, size, size, work.channels)
        self._given[stage.name, "a"] = images
        self._given[stage.name, "b"] = filters[..., :colours].contiguous()

    def _tensor(self, key: tuple[str, str], array: Any) -> Any:
        stage, operand = key
        tensor = self._torch.from_dlpack(array)
        dtype = self._operands.pipeline.stage(stage).tiled.operands[operand].dtype
        return tensor.view(self._torch.bfloat16) if dtype == "bf16" else tensor

    def _read(self, stage: Stage, operand: str, made: dict[str, Any]) -> Any:
        return made.get(self._places.get((stage.name, operand), ""), self._given[stage.name, operand])
