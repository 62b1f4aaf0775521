"""Element types on the GPU: the arrays that hold them, rounding, and how far a result may be off.

Example: bf16 travels as uint16 bit patterns, since NumPy has no such type.
"""

from collections.abc import Mapping
from typing import Any

from wavesim.model.regions import Element

# Relative error in the Frobenius norm: a few roundings of the type, in a row. Of bf16 one is 1.7e-3,
# a layer's attention and the product behind it come to 5e-3 and 6e-3. int32 must be the same.
TOLERANCE: Mapping[Element, float] = {"fp16": 1e-3, "bf16": 8e-3, "fp32": 1e-5, "int32": 0.0}
_ARRAYS: Mapping[str, str] = {"fp16": "float16", "bf16": "uint16", "fp32": "float32", "int32": "int32"}


def element_type(dtype: str) -> str:
    """The array type that holds fp16, bf16, fp32 or int32."""
    return _ARRAYS[dtype]


def from_float32(values: Any, dtype: str) -> Any:
    """Rounded to nearest even."""
    if dtype != "bf16":
        return values.astype(_ARRAYS[dtype])
    bits = values.view("uint32")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("uint16")


def to_float32(values: Any, dtype: str) -> Any:
    """The same numbers, exactly (of int32 those below 2^24)."""
    if dtype != "bf16":
        return values.astype("float32")
    return (values.astype("uint32") << 16).view("float32")
