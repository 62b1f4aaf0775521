"""What an MLP computes, whoever's arrays it is on, and what one call of it is given.

Example: Llama's MLP for 512 tokens is `MlpShape(512, 4096, 14336, 4096, "bf16", "swiglu", gate="separate",
w1_order="column", w2_order="column")`: torch's `nn.Linear` stores (out, in), a column-major (in, out).
"""

from dataclasses import dataclass
from typing import Literal, Protocol

Word = Literal["gelu", "gelu-exact", "relu", "silu", "swiglu", "geglu", "geglu-exact"]
Order = Literal["row", "column"]  # of a matrix (in, out): the one whose elements are neighbours in memory
GATED: dict[str, str] = {"swiglu": "silu", "geglu": "gelu", "geglu-exact": "gelu-exact"}


@dataclass(frozen=True)
class MlpShape:
    """act(x w1 + b1) w2 + b2, or with a gate (act(x w_gate + b_gate) * (x w1 + b1)) w2 + b2.

    x (m, k), w1 and w_gate (k, n1), w2 (n1, n2). "gelu" is with tanh. With `gate` "separate", w_gate is a
    matrix of its own; with "packed", w1 is (k, 2 n1): the gate's columns, then the values'. None: no gate.
    """

    m: int
    k: int
    n1: int
    n2: int
    dtype: Literal["fp16", "bf16"]
    activation: Word | None = None
    gate: Literal["separate", "packed"] | None = None
    w1_order: Order = "row"
    w2_order: Order = "row"
    has_b1: bool = False
    has_b2: bool = False

    @property
    def products(self) -> int:
        """Columns of the first product: n1, or twice that with a gate."""
        return self.n1 * (2 if self.gate else 1)


@dataclass(slots=True)
class MlpCall:
    """One call: device addresses, 0 where there is none, the stream it is on, and its own scratch memory.

    With a gate, `w_gate` and `b_gate` are always given: of packed weights they are the first half of w1 and
    b1, and `w1` and `b1` point at the second, the values. `x_stride` is from one row of x to the next, in
    elements. `w1_stride`: from one column (order "column") or row ("row") of w1, and of w_gate, to the next;
    `w2_stride` alike. `scratch` has the way's `scratch_bytes`, 256-byte aligned, its content undefined; the
    call owns it until its last kernel has ended. `limit_ns` bounds every wait on the device.
    """

    x: int
    x_stride: int
    w1: int
    w1_stride: int
    w2: int
    w2_stride: int
    out: int
    scratch: int
    stream: int
    device: int
    is_captured: bool
    limit_ns: int
    w_gate: int = 0
    b1: int = 0
    b_gate: int = 0
    b2: int = 0


class MlpExecutable(Protocol):
    """One way to compute an MLP shape on the current GPU, ready to be launched any number of times."""

    label: str
    scratch_bytes: int

    def run(self, call: MlpCall) -> None:
        """Launches it on the call's stream; capturable. `out` is (m, n2), row-major and dense."""
