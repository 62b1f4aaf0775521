"""`decode(model)`: the next token of each sequence through a whole model in one launch.

Example: `step = decode(model)`; `step.fill(past_key_values)` after a prefill by the model itself; then
`logits = step(tokens)` for each token. The launch streams all weights through shared memory without a break
between layers; sampling is the caller's. Importing this needs PyTorch, and no GPU.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from wavesim.errors import DescriptionError, DeviceError
from wavesim.safe_io.bounds import whole
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import compute_capability, require_cupy
from wavesim_gpu.driver.tensors import on_device, stream_at
from wavesim_gpu.kernels.decode.decode_launch import DecodeLaunch, StepAddresses
from wavesim_gpu.kernels.decode.shape import DecodeShape
from wavesim_gpu.torch.decoder_parts import DecoderParts, parts_of, rotation_table

OLDEST = (9, 0)  # bulk copies into shared memory
MOST_LENGTH = 2**20


def decode(model: nn.Module, *, batch: int = 1, max_length: int = 2048) -> "DecodeStep":
    """A step that computes the logits of `batch` next tokens in one launch.

    Takes causal language models of Hugging Face's Llama, Qwen2, Qwen3 and Mistral by their attributes: bf16
    weights on one GPU of compute capability 9.0 or later, heads of 64 or 128. Reads the weights where they
    are; copies norms and biases. Raises `DescriptionError` for what it cannot run, by name, and
    `DeviceError` where the GPU cannot.
    """
    if not isinstance(model, nn.Module):
        raise DescriptionError(f"model is a {type(model).__name__}; give a torch.nn.Module")
    length = whole("max_length", max_length, 1, MOST_LENGTH)
    parts = parts_of(model)
    window = getattr(getattr(model, "config", None), "sliding_window", None)
    if window is not None and getattr(model.config, "use_sliding_window", True) and length > window:
        raise DescriptionError(f"max_length is {length}; the model attends to {window} keys: give no more")
    with on_device(parts.norms.device.index):
        capability = compute_capability(require_cupy())
        if capability < OLDEST:
            raise DeviceError(
                f"the GPU has compute capability {capability[0]}.{capability[1]}; a decode step needs "
                f"{OLDEST[0]}.{OLDEST[1]} (bulk copies into shared memory): call the model itself"
            )
        return DecodeStep(parts, batch, length)


class DecodeStep:
    """A model's decode step and its cache. Its launches must follow each other, on one stream or ordered.

    `tokens` (batch, int64), `positions` (batch, int32) and `logits` (batch, vocabulary, bf16) stay where they
    are, so that a CUDA graph may capture `launch` or a call. `keys` and `values` are one tensor a layer,
    (batch, key heads, max_length, head size). A step that waited longer than its limit gives NaN, and so do
    all behind it until `check` raises.
    """

    def __init__(self, parts: DecoderParts, batch: int, max_length: int, build: Build | None = None) -> None:
        device, (heads, kv_heads) = parts.norms.device, parts.heads
        vocabulary, hidden = parts.head.shape
        if vocabulary % 16:
            raise DescriptionError(
                f"the vocabulary has {vocabulary} words; a decode step needs a multiple of 16"
            )
        shape = DecodeShape(
            hidden,
            parts.matrices[0][4].shape[0],
            heads,
            kv_heads,
            parts.head_size,
            batch,
            has_bias=parts.biases is not None,
            has_head_norm=parts.head_norms is not None,
        ).tuned(max_length // 2)
        self.parts, self.max_length = parts, max_length
        cache = (len(parts.matrices), batch, kv_heads, max_length, parts.head_size)
        self.keys, self.values = (list(torch.zeros(cache, dtype=torch.bfloat16, device=device)) for _ in "kv")
        self.tokens = torch.zeros(batch, dtype=torch.int64, device=device)
        self.positions = torch.zeros(batch, dtype=torch.int32, device=device)
        self.logits = torch.empty(batch, vocabulary, dtype=torch.bfloat16, device=device)
        self._rotary = rotation_table(parts, max_length)
        torch.cuda.current_stream().synchronize()  # what was made here is read on other streams
        self._launch = DecodeLaunch(
            shape,
            self._addresses(),
            max_length=max_length,
            vocabulary=vocabulary,
            norm_epsilon=parts.norm_epsilon,
            build=build,
        )

    def __call__(self, tokens: Tensor) -> Tensor:
        """The logits of one more token of each sequence; its keys and values are in the cache, the
        positions one further.
        """
        self.tokens.copy_(tokens.reshape(-1))
        self.launch()
        self.positions.add_(1)
        return self.logits

    def launch(self) -> None:
        """The step alone, on the current stream: of `tokens` at `positions`, into `logits` and the cache."""
        device = self.tokens.device.index
        self._launch.enqueue(stream_at(int(torch.cuda.current_stream(device).cuda_stream)))

    def check(self) -> None:
        """Waits for the GPU. Raises `DescriptionError` where the cache was full, `DeadlockError` where a
        step gave up.
        """
        torch.cuda.synchronize(self.tokens.device)
        self._launch.check()

    def fill(self, past_key_values: Any) -> None:
        """Takes over the keys and values of a prefill, and goes on behind them."""
        length = 0
        for number, (keys, values) in enumerate(_layers_of(past_key_values)):
            length = keys.shape[2]
            if length > self.max_length:
                raise DescriptionError(
                    f"the cache has {length} keys; this one holds {self.max_length}: give max_length"
                )
            self.keys[number][:, :, :length].copy_(keys)
            self.values[number][:, :, :length].copy_(values)
        self.positions.fill_(length)

    def _addresses(self) -> StepAddresses:
        parts = self.parts
        tensors = [
            (*row, keys, values)
            for row, keys, values in zip(parts.matrices, self.keys, self.values, strict=True)
        ]
        optional = {"biases": parts.biases, "head_norms": parts.head_norms}
        return StepAddresses(
            layers=tuple(tuple(tensor.data_ptr() for tensor in row) for row in tensors),
            norms=parts.norms.data_ptr(),
            rotary=self._rotary.data_ptr(),
            positions=self.positions.data_ptr(),
            input=parts.embedding.data_ptr(),
            tokens=self.tokens.data_ptr(),
            head_weight=parts.head.data_ptr(),
            output=self.logits.data_ptr(),
            **{name: tensor.data_ptr() for name, tensor in optional.items() if tensor is not None},
        )


def _layers_of(cache: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """Keys and values by layer: of a cache object of any age, or of pairs."""
    if hasattr(cache, "layers"):
        yield from ((layer.keys, layer.values) for layer in cache.layers)
    elif hasattr(cache, "key_cache"):
        yield from zip(cache.key_cache, cache.value_cache, strict=True)
    else:
        yield from ((keys, values) for keys, values, *_ in cache)
