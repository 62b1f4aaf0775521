"""The 40 shapes that are measured: written down, all models early, a third of them off round numbers."""

import hashlib
from collections import Counter

from wavesim_gpu.bench.kinds.mlp_shapes import PATH, all_shapes, shapes_hash


def test_forty_shapes_of_five_models_each_named_once():
    shapes = all_shapes()
    assert len({shape.name for shape in shapes}) == 40
    assert set(Counter(shape.model for shape in shapes).values()) == {8}
    assert {shape.tokens for shape in shapes} >= {1, 8192}


def test_the_hash_is_of_the_file():
    assert shapes_hash() == hashlib.sha256(PATH.read_bytes()).hexdigest()
