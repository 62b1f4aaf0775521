"""A transformer layer as PyTorch runs it: cuBLASLt's products, cuDNN's attention, torch's norms.

Example: `TorchLayer(operands).run()` computes what the pipeline's stages do, on the same inputs and weights,
one torch call after the other; SwiGLU's columns are set apart as torch users have them, all gates, then all
values. `TorchGraph` captures many runs, on several sets of weights in turn, as one CUDA graph.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from wavesim.model.stage import Stage
from wavesim.work.attention import Attention
from wavesim.work.attention.decode import AttentionDecode
from wavesim.work.gemm import GATED, Gemm
from wavesim.work.rows import Norm
from wavesim_gpu.bench.libraries.torch_chain import WARM_UPS, require_torch
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.run.operands import Operands, written, written_name

ATTENTION_BACKENDS = ("CUDNN_ATTENTION", "FLASH_ATTENTION")  # the first that takes the shape


class TorchLayer:
    """A layer's, or a chain's, stages over the operands' inputs and weights. Raises `DeviceError`."""

    def __init__(self, operands: Operands, attention: str = ATTENTION_BACKENDS[0]) -> None:
        self._torch, self._operands = require_torch(), operands
        self._attention = getattr(self._torch.nn.attention.SDPBackend, attention)
        self._torch.backends.cuda.preferred_blas_library("cublaslt")
        self._given = {key: self._tensor(key, array) for key, array in operands.arrays.items()}
        for stage in operands.pipeline.stages:
            if stage.work.is_product and stage.gemm.activation in GATED:
                packed = self._given[stage.name, "b"]
                halves = (packed[:, 0::2], packed[:, 1::2])
                self._given[stage.name, "b"] = self._torch.cat(halves, dim=1).contiguous()

    def run(self) -> dict[str, Any]:
        """Every stage's outputs, by buffer."""
        made: dict[str, Any] = {}
        for stage in self._operands.pipeline.stages:
            given = {name: self._read(stage, name, made) for name in stage.tiled.operands}
            for name, result in self._computed(stage.work, given).items():
                made[stage.view(name).buffer] = result
        return made

    def _tensor(self, key: tuple[str, str], array: Any) -> Any:
        stage, operand = key
        tensor = self._torch.from_dlpack(array)
        dtype = self._operands.pipeline.stage(stage).tiled.operands[operand].dtype
        return tensor.view(self._torch.bfloat16) if dtype == "bf16" else tensor

    def _read(self, stage: Stage, operand: str, made: dict[str, Any]) -> Any:
        view = stage.view(operand)
        if view.buffer not in made:
            return self._given[stage.name, operand]
        columns = stage.tiled.operands[operand].columns
        return made[view.buffer][:, view.column : view.column + columns]

    def _computed(self, work: Any, given: dict[str, Any]) -> dict[str, Any]:
        by_kind: dict[type, Callable[[Any, dict[str, Any]], dict[str, Any]]] = {
            Norm: self._norm,
            Gemm: lambda *both: {"c": self._product(*both)},
            AttentionDecode: lambda *both: {"out": self._decode(*both)},
            Attention: lambda *both: {"out": self._prefill(*both)},
        }
        return by_kind[type(work)](work, given)

    def _norm(self, work: Norm, given: dict[str, Any]) -> dict[str, Any]:
        functional = self._torch.nn.functional
        h = given["x"] + given["residual"] if work.has_residual else given["x"]
        size, weight = (work.columns,), given["weight"].reshape(-1)
        if work.kind == "layer":
            out = functional.layer_norm(h, size, weight, given["bias"].reshape(-1), work.epsilon)
        else:
            out = functional.rms_norm(h, size, weight, work.epsilon)
        return {"sum": h, "out": out}

    def _product(self, work: Gemm, given: dict[str, Any]) -> Any:
        torch, functional = self._torch, self._torch.nn.functional
        bias = given["bias"].reshape(-1) if work.has_bias else None
        if bias is not None and work.activation == "gelu":  # cuBLASLt's own epilogue, GELU with tanh
            return torch._addmm_activation(bias, given["a"], given["b"], use_gelu=True)  # noqa: SLF001  # it has no other name
        product = given["a"] @ given["b"] if bias is None else torch.addmm(bias, given["a"], given["b"])
        if work.activation == "gelu":
            return functional.gelu(product, approximate="tanh")
        if work.activation == "swiglu":
            gates, values = product.chunk(2, dim=1)
            return functional.silu(gates) * values
        return product

    def _prefill(self, work: Attention, given: dict[str, Any]) -> Any:
        q = self._heads(given["q"], work.sequences, work.heads, work.head_dim)
        k, v = (self._heads(given[name], work.sequences, work.kv_heads, work.head_dim) for name in "kv")
        return self._attend(q, k, v, is_causal=work.is_causal)

    def _decode(self, work: AttentionDecode, given: dict[str, Any]) -> Any:
        k, v = (
            given[name].reshape(work.sequences, work.kv_rows, work.kv_heads, work.head_dim) for name in "kv"
        )
        for cache, name in ((k, "k_new"), (v, "v_new")):
            new = given[name].reshape(work.sequences, work.kv_heads, work.head_dim)
            cache[:, work.cached].copy_(new)
        q = self._heads(given["q"], work.sequences, work.heads, work.head_dim)
        return self._attend(q, k.transpose(1, 2), v.transpose(1, 2), is_causal=False)

    def _heads(self, matrix: Any, sequences: int, heads: int, head_dim: int) -> Any:
        """(sequences, heads, length, head_dim), a view."""
        return matrix.unflatten(1, (heads, head_dim)).unflatten(0, (sequences, -1)).transpose(1, 2)

    def _attend(self, q: Any, k: Any, v: Any, *, is_causal: bool) -> Any:
        with self._torch.nn.attention.sdpa_kernel(self._attention):
            out = self._torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=is_causal, enable_gqa=q.shape[1] != k.shape[1]
            )
        return out.transpose(1, 2).flatten(2).flatten(0, 1)


def torch_layers(sets: Sequence[Operands]) -> tuple[list[TorchLayer], str]:
    """A layer per set of operands, with the first attention backend that takes them, and its name."""
    for name in ATTENTION_BACKENDS:
        layers = [TorchLayer(operands, name) for operands in sets]
        try:
            layers[0].run()
        except RuntimeError:
            if name == ATTENTION_BACKENDS[-1]:
                raise
        else:
            return layers, name
    raise AssertionError


class TorchGraph:
    """`repeats` runs of what PyTorch computes, the sets of weights in turn, as one CUDA graph.

    The last stage's outputs of the last run are compared. `operands` are the first set's.
    """

    def __init__(self, runs: Sequence[Any], operands: Operands, repeats: int) -> None:
        torch, cupy = require_torch(), require_cupy()
        self._torch, self._side, self._operands = torch, torch.cuda.Stream(), operands
        with torch.cuda.stream(self._side), torch.no_grad():
            for _ in range(WARM_UPS):
                for entry in runs:
                    entry.run()
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self._graph, stream=self._side):
            for index in range(repeats):
                made = runs[index % len(runs)].run()
                if index % len(runs) == 0:
                    first = made
        last = operands.pipeline.stages[-1]
        self._last, self._kept = first[last.view("c").buffer], runs
        self.stream = cupy.cuda.ExternalStream(self._side.cuda_stream)

    def launch(self) -> None:
        """Replays the graph."""
        with self._torch.cuda.stream(self._side):
            self._graph.replay()

    def results(self) -> dict[str, Any]:
        """The last stage's, by the name that the reference has them under."""
        pipeline = self._operands.pipeline
        stage = pipeline.stages[-1].name
        names = [written_name(pipeline, *key) for key in written(pipeline) if key[0] == stage]
        return {names[0]: require_cupy().from_dlpack(self._last.float().contiguous())}

    def spoil(self) -> None:
        """Overwrites what a run must write."""
        with self._torch.cuda.stream(self._side):
            self._last.fill_(math.nan)
