"""What a convolution computes, in float32: for arrays of CuPy or of NumPy, whose functions are the same."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from wavesim.work.convolution import Conv2D


def conv_reference(conv: Conv2D, arrays: Mapping[str, Any]) -> Any:
    """C (pixels, filters) of a, b and what else it has, all float32: a product per filter tap."""
    window, size = conv.window, conv.kernel_size
    images = arrays["a"].reshape(conv.images, conv.height, conv.width, conv.channels)
    above, left = (window.padding, window.padding), (window.left, window.left)
    padded = np.pad(images, ((0, 0), above, left, (0, 0)))
    filters = arrays["b"].reshape(conv.filters, size, size, conv.channels)
    rows, columns = (conv.stride * (extent - 1) + 1 for extent in (window.out_height, window.out_width))
    sums = 0
    for row in range(size):
        for column in range(size):
            read = padded[:, row : row + rows : conv.stride, column : column + columns : conv.stride]
            sums = sums + read.reshape(conv.pixels, conv.channels) @ filters[:, row, column].T
    if conv.has_bias:
        sums = sums + arrays["bias"]
    if conv.has_residual:
        sums = sums + arrays["residual"]
    return np.maximum(sums, np.float32(0)) if conv.activation == "relu" else sums
