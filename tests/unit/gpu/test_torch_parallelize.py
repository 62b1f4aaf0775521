"""A decoder shared out over two processes, with gloo on the CPU: the same outputs, gradients and cache."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402

from wavesim.errors import DescriptionError  # noqa: E402
from wavesim_gpu.torch import parallelize  # noqa: E402

SIZES = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 50, "head_dim": 16,
}  # fmt: skip
KINDS = ("Llama", "Qwen2", "Qwen3", "Mistral")


def made(kind, **sizes):
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**SIZES | sizes)
    return getattr(transformers, f"{kind}ForCausalLM")(config).eval()


def _rank(rank, path):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    tokens = torch.arange(24).view(2, 12) % 50
    for kind in KINDS:
        whole, model = made(kind), made(kind)
        report = parallelize(model)
        assert len(report.shared) == 4
        assert not report.kept
        assert sum(p.numel() for p in model.parameters()) < sum(p.numel() for p in whole.parameters())
        with torch.no_grad():
            torch.testing.assert_close(model(tokens).logits, whole(tokens).logits, rtol=1e-4, atol=1e-5)
            generated = [one.generate(tokens, max_new_tokens=4, do_sample=False) for one in (model, whole)]
        assert torch.equal(*generated)
        assert not parallelize(model).shared  # it is already
        for one in (model, whole):
            one(tokens).logits.square().mean().backward()
        for name in ("model.embed_tokens", "model.layers.0.input_layernorm"):
            grads = [one.get_submodule(name).weight.grad for one in (model, whole)]
            torch.testing.assert_close(*grads, rtol=1e-3, atol=1e-6)
        part = model.model.layers[1].mlp.down_proj.weight.grad
        expected = whole.model.layers[1].mlp.down_proj.weight.grad.chunk(2, 1)[rank]
        torch.testing.assert_close(part, expected, rtol=1e-3, atol=1e-6)
    few = made("Llama", num_key_value_heads=1)
    report = parallelize(few)
    assert len(report.shared) == 2
    assert "k_proj has 1 times head_dim outputs, which 2 ranks cannot share out alike" in f"{report}"
    torch.testing.assert_close(
        few(tokens).logits, made("Llama", num_key_value_heads=1)(tokens).logits, rtol=1e-4, atol=1e-5
    )
    other = made("Llama")
    if rank:
        other.model.layers[1].mlp.up_proj.weight.data[0, 0] += 1
    with pytest.raises(DescriptionError, match=r"rank 1's model differs .* model.layers.1.mlp"):
        parallelize(other)
    with pytest.raises(DescriptionError, match="give a torch"):
        parallelize("llama")
    dist.destroy_process_group()


def test_two_processes_share_out_decoders_of_four_kinds(tmp_path):
    mp.spawn(_rank, (str(tmp_path / "meeting"),), nprocs=2)


def test_without_a_group_nothing_is_shared_out():
    with pytest.raises(DescriptionError, match="it needs 2 or more"):
        parallelize(made("Llama"))
