"""The 40 shapes that are measured: written down, all models early, a third of them off round numbers."""

import hashlib
from collections import Counter

from wavesim_gpu.bench.kinds.mlp_shapes import PATH, all_shapes, shapes_hash


def test_forty_shapes_of_five_models_each_named_once():
    shapes = all_shapes()
    assert len({shape.name for shape in shapes}) == 40
    assert set(Counter(shape.model for shape in shapes).values()) == {8}
    assert {shape.tokens for shape in shapes} >= {1, 8192}


def test_a_run_that_is_cut_off_after_five_shapes_has_every_model():
    assert len({shape.model for shape in all_shapes()[:5]}) == 5


def test_a_third_of_the_shapes_fill_no_whole_tiles():
    off = [shape for shape in all_shapes() if shape.tokens % 64]
    assert len(off) >= 40 / 3


def test_the_hash_is_of_the_file():
    assert shapes_hash() == hashlib.sha256(PATH.read_bytes()).hexdigest()


def test_weights_are_column_major_and_a_gate_is_a_matrix_of_its_own():
    by_model = {shape.model: shape.mlp for shape in all_shapes()}
    assert {mlp.w1_order for mlp in by_model.values()} == {"column"}
    gpt, llama = by_model["GPT-3 175B, 8 GPUs"], by_model["LLaMA 65B, 8 GPUs"]
    assert (gpt.gate, gpt.has_b1, gpt.dtype) == (None, True, "fp16")
    assert (llama.gate, llama.has_b1, llama.n1) == ("separate", False, 22016 // 8)


def test_weight_bytes_and_flops_of_a_shape():
    shape = next(one for one in all_shapes() if one.name == "Llama 3 8B M=512")
    assert shape.weight_bytes == 2 * 3 * 4096 * 14336
    assert shape.flops == 2 * 512 * 3 * 4096 * 14336
