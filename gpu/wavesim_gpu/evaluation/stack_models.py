"""Models of Hugging Face with random weights, of known shapes but shorter, and the steps they are timed at.

Example: Llama-3-8B's shape with 4 layers, a prompt of 1,024 tokens, or one token of each of 16 sequences
whose caches hold 511: a step as a server takes it, always the same, so that a CUDA graph can replay it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wavesim_gpu.layers.description import MlpShape

CACHED = 512  # positions of a decode step's cache; the step writes the last
LAYERS, VOCABULARY = 4, 2048  # few and small: the layers are alike, and the head is no part of the question
SEED = 15


@dataclass(frozen=True)
class StackShape:
    """A causal language model's sizes. `family` is its class in transformers: "Llama" or "Qwen2"."""

    name: str
    family: str
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    layers: int = LAYERS
    vocabulary: int = VOCABULARY


@dataclass(frozen=True)
class Phase:
    """One step: a prompt of `tokens` ("prefill"), or one token of each of `batch` sequences ("decode")."""

    name: str
    batch: int
    tokens: int

    @property
    def rows(self) -> int:
        """Rows of the MLPs' input."""
        return self.batch * self.tokens

    @property
    def label(self) -> str:
        """As tables have it."""
        return f"prefill {self.tokens}" if self.name == "prefill" else f"decode, batch {self.batch}"


STACKS = (
    StackShape("llama-3-8b", "Llama", 4096, 14336, 32, 8),
    StackShape("qwen2.5-7b", "Qwen2", 3584, 18944, 28, 4),
)
TINY = (StackShape("tiny-llama", "Llama", 64, 128, 4, 2, layers=2, vocabulary=64),)
# Long and short, prompts and tokens in turns: a run that is cut off has some of each.
PHASES = (
    Phase("prefill", 1, 2048),
    Phase("decode", 1, 1),
    Phase("prefill", 1, 512),
    Phase("decode", 16, 1),
    Phase("prefill", 1, 1024),
    Phase("decode", 64, 1),
)
TINY_PHASES = (Phase("prefill", 1, 8), Phase("decode", 2, 1))


def mlp_shape(stack: StackShape, rows: int) -> MlpShape:
    """The stack's MLP at so many rows, its weights as `nn.Linear` stores them."""
    sizes = (rows, stack.hidden, stack.intermediate, stack.hidden)
    return MlpShape(*sizes, "bf16", "swiglu", gate="separate", w1_order="column", w2_order="column")


def make_model(stack: StackShape, device: str) -> Any:
    """The model in bfloat16 with random weights from a seed, ready for inference."""
    import torch  # noqa: PLC0415  # optional
    import transformers  # noqa: PLC0415  # optional

    config = getattr(transformers, f"{stack.family}Config")(
        hidden_size=stack.hidden,
        intermediate_size=stack.intermediate,
        num_attention_heads=stack.heads,
        num_key_value_heads=stack.kv_heads,
        num_hidden_layers=stack.layers,
        vocab_size=stack.vocabulary,
        max_position_embeddings=8192,
        attn_implementation="sdpa",
        use_cache=False,
    )
    torch.manual_seed(SEED)
    with torch.device(device):
        model = getattr(transformers, f"{stack.family}ForCausalLM")(config)
    return model.to(torch.bfloat16).eval()


def step_of(stack: StackShape, phase: Phase, device: str) -> Callable[[Any], Any]:
    """The step as a function of a model, which returns the logits. Its tensors are made here, once."""
    import torch  # noqa: PLC0415  # optional

    generator = torch.Generator(device).manual_seed(SEED)
    shape = (phase.batch, phase.tokens)
    words = torch.randint(0, stack.vocabulary, shape, device=device, generator=generator)
    named: dict[str, Any] = {"input_ids": words, "use_cache": False}
    if phase.name == "decode":
        head = stack.hidden // stack.heads
        sizes = (2, stack.layers, phase.batch, stack.kv_heads, CACHED, head)
        cached = torch.randn(sizes, device=device, dtype=torch.bfloat16, generator=generator)
        named["past_key_values"] = FullCache(cached)
        named["position_ids"] = torch.full(shape, CACHED - 1, device=device)

    def step(model: Any) -> Any:
        with torch.no_grad():
            return model(**named).logits

    return step


class FullCache:
    """Keys and values of `CACHED` positions, the last of them written anew by every step.

    What transformers asks of its own caches; those count the steps, and a replayed graph would run past
    their end. `tensor` is (keys and values, layers, batch, heads, positions, head size).
    """

    is_compileable = False  # no mask: one query reads every position
    is_sliding = (False,)

    def __init__(self, tensor: Any) -> None:
        self._keys, self._values = tensor

    def update(self, keys: Any, values: Any, layer: int, *_: Any, **__: Any) -> tuple[Any, Any]:
        """Writes the new position of a layer; returns all of its keys and values."""
        self._keys[layer, :, :, -1:].copy_(keys)
        self._values[layer, :, :, -1:].copy_(values)
        return self._keys[layer], self._values[layer]

    def get_seq_length(self, _layer: int = 0) -> int:
        """Positions before the new one."""
        return CACHED - 1

    def get_query_offset(self, _layer: int = 0) -> int:
        """The new one's position."""
        return CACHED - 1

    def get_mask_sizes(self, _queries: int, _layer: int = 0) -> tuple[int, int]:
        """Positions to attend to, and the first of them."""
        return CACHED, 0
