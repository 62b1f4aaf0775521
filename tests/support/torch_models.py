"""Hugging Face models from small configurations with random weights, and inputs. Needs transformers."""

import torch
import transformers

SIDES = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4}
TOKENS = {"vocab_size": 128, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
GROUPED = {"num_key_value_heads": 2}
# The model's class, its configuration, and the class and activation of its MLPs.
KINDS = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", SIDES | TOKENS | GROUPED, "LlamaMLP", "swiglu"),
    "llama with biases": (
        "LlamaForCausalLM",
        "LlamaConfig",
        SIDES | TOKENS | GROUPED | {"mlp_bias": True},
        "LlamaMLP",
        "swiglu",
    ),
    "qwen2": (
        "Qwen2ForCausalLM",
        "Qwen2Config",
        SIDES | TOKENS | GROUPED | {"tie_word_embeddings": True},
        "Qwen2MLP",
        "swiglu",
    ),
    "gpt2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"n_embd": 64, "n_layer": 2, "n_head": 4} | TOKENS,
        "GPT2MLP",
        "gelu",
    ),
    "vit": (
        "ViTForImageClassification",
        "ViTConfig",
        SIDES | {"image_size": 32, "patch_size": 8},
        "ViTMLP",
        "gelu-exact",
    ),
}


def model_of(kind: str, dtype: torch.dtype = torch.bfloat16, device: str = "cpu", **changes: object):
    """The model, in evaluation; its weights are the same each time."""
    name, config, sides, _, _ = KINDS[kind]
    torch.manual_seed(0)
    made = getattr(transformers, name)(getattr(transformers, config)(**(sides | changes)))
    return made.to(device, dtype).eval()


def input_of(kind: str, rows: int = 7, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"):
    """Tokens (2, rows), or two images."""
    made = torch.Generator().manual_seed(rows)
    if kind == "vit":
        return torch.randn((2, 3, 32, 32), generator=made).to(device, dtype)
    return torch.randint(0, 128, (2, rows), generator=made).to(device)
