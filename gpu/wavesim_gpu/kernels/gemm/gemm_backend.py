"""What a GEMM's kernel backend declares and computes, besides what every stage's does (`stage_backend.py`).

Example: a backend says which tiles, element types and combinations of plan parts it runs; `launch(gemm, plan,
device)` says which template instance computes a GEMM, with how many threads and blocks, and `arguments(gemm,
plan, addresses)` are its parameters after `cusync::StageParams`. A new backend is one class and one line in
`backends.py`.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.work.gemm import Gemm
from wavesim_gpu.driver.kernel_launch import KernelLaunch
from wavesim_gpu.kernels.gemm.reference import computed_outputs
from wavesim_gpu.kernels.stage_backend import OperandPlace, Scratch, StageBackend

SPACES = ("first", "second")  # namespaces of a fused kernel's stages in its <generated.cuh>
TileShape = tuple[int, int, int]  # rows, columns and the depth of a k-block


@dataclass(frozen=True)
class Addresses:
    """Where a GEMM's operands are on the device; `partials` and `tickets` only with split-K, else 0.

    With gates in halves `b` and `bias` are the gates', `b_values` and `values_bias` the values'. A stride is
    from one row of a matrix to the next, of a column-major B from one column, in elements; 0 if dense.
    """

    a: int
    b: int
    c: int
    partials: int = 0
    tickets: int = 0
    b_values: int = 0
    bias: int = 0
    values_bias: int = 0
    a_stride: int = 0
    b_stride: int = 0
    c_stride: int = 0
    residual: int = 0
    rope: int = 0
    k_cache: int = 0
    v_cache: int = 0
    residual_stride: int = 0
    k_cache_stride: int = 0
    v_cache_stride: int = 0


Operand = Literal[
    "a",
    "b",
    "b_values",
    "c",
    "bias",
    "values_bias",
    "residual",
    "rope",
    "k_cache",
    "v_cache",
    "partials",
    "tickets",
]
STRIDED = ("a", "b", "c", "residual", "k_cache", "v_cache")  # matrices whose rows may lie apart


class AddressField(NamedTuple):
    """Where a parameter record holds an address: at byte `offset` a pointer, or a tensor map of 128 bytes.

    The address is that of `operand`, as `Addresses` has it, and `shift` bytes.
    """

    offset: int
    kind: Literal["map", "pointer"]
    operand: Operand
    shift: int = 0


class GemmBackend(StageBackend):
    """Kernels that compute a GEMM: which tiles, element types and forms they have."""

    works = (Gemm,)
    waits_by_tile = False
    tiles: ClassVar[tuple[TileShape, ...]]
    element_types: ClassVar[tuple[str, ...]] = ("fp16", "bf16")
    activations: ClassVar[tuple[str | None, ...]]
    # How a GEMM may be given: in which orders B is stored, where gates are, whether there is a bias.
    b_orders: ClassVar[tuple[str, ...]] = ("row",)
    gates: ClassVar[tuple[str, ...]] = ("interleaved",)
    biases: ClassVar[tuple[bool, ...]] = (False,)
    has_layer_forms: ClassVar[bool] = False  # whether it adds residuals, rotates heads and stores into caches

    def check(self, gemm: Gemm, plan: Plan | None = None) -> None:
        """Raises `DescriptionError`, with the fix, for a GEMM that it cannot compute, or not under a plan."""
        start = f"Gemm {gemm.name}:"
        if (gemm.tile_m, gemm.tile_n, gemm.tile_k) not in self.tiles:
            known = ", ".join("x".join(map(str, tile)) for tile in self.tiles)
            raise DescriptionError(
                f"{start} the tile is {gemm.tile_m}x{gemm.tile_n}x{gemm.tile_k}; backend {self.name!r} has "
                f"{known}. Use one of these"
            )
        if gemm.dtype not in self.element_types:
            known = " and ".join(self.element_types)
            raise DescriptionError(f"{start} dtype is {gemm.dtype!r}; backend {self.name!r} has {known}")
        if gemm.activation not in self.activations:
            known = ", ".join(map(repr, self.activations))
            raise DescriptionError(
                f"{start} activation is {gemm.activation!r}; backend {self.name!r} has {known}. Leave it out "
                "and apply it outside"
            )
        for name, known_words, fix in (
            ("b_order", self.b_orders, "Give B row-major (a contiguous copy)"),
            ("gates", self.gates, "Give gates and values as one matrix with alternating columns"),
            ("has_bias", self.biases, "Add it outside"),
        ):
            if getattr(gemm, name) not in known_words:
                known = ", ".join(map(repr, known_words))
                raise DescriptionError(
                    f"{start} {name} is {getattr(gemm, name)!r}; backend {self.name!r} has {known}. {fix}, "
                    "or use backend='hopper'"
                )
        asked = [name for name in ("has_residual", "rope", "cache") if getattr(gemm, name)]
        if asked and not self.has_layer_forms:
            raise DescriptionError(
                f"{start} {asked[0]} is {getattr(gemm, asked[0])}; backend {self.name!r} has none. Do it in "
                "a stage of its own, or use backend='hopper'"
            )
        for name, unit in self.multiples(gemm).items():
            size = getattr(gemm, name)
            if size % unit:
                raise DescriptionError(
                    f"{start} {name} is {size}; on the GPU it must be a multiple of {unit}. Pad it to "
                    f"{-(-size // unit) * unit}"
                )

    @abstractmethod
    def multiples(self, gemm: Gemm) -> Mapping[str, int]:
        """What `n` and `k` must be multiples of."""

    @abstractmethod
    def launch(self, gemm: Gemm, plan: Plan, device: Device) -> KernelLaunch:
        """How to launch the kernel of one GEMM. Raises as `check` does, and `DeviceError`."""

    def fused_launch(self, pipeline: Pipeline, plan: Plan, device: Device) -> KernelLaunch:
        """How to launch one kernel for all stages; only of a backend that runs the schedule "fused".

        Its <generated.cuh> has the header of each stage in a namespace of its own, by `SPACES`; its
        parameters are those of all stages. Raises as `launch` does.
        """
        raise NotImplementedError(f"backend {self.name!r} runs fused plans by its declaration only")

    def stage_arguments(
        self, work: Gemm, plan: Plan, places: Mapping[str, OperandPlace], scratch: Scratch
    ) -> tuple[Any, ...]:
        """As `arguments`, which its `Addresses` are made for."""
        addresses = {name: place.address for name, place in places.items()}
        strides = {f"{name}_stride": places[name].row_stride for name in STRIDED if name in places}
        return self.arguments(
            work, plan, Addresses(**addresses, **strides, partials=scratch.partials, tickets=scratch.tickets)
        )

    def reference(self, work: Gemm, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """C of A, B and what else it has, and the caches that K and V are stored into."""
        return computed_outputs(work, arrays)

    @abstractmethod
    def arguments(self, gemm: Gemm, plan: Plan, addresses: Addresses) -> tuple[Any, ...]:
        """NumPy scalars or records: the kernel's parameters after the first."""

    def address_fields(self, gemm: Gemm, plan: Plan) -> list[AddressField]:
        """Where the record that `arguments` returns holds addresses: all that differs between two calls.

        A copy of the record with other addresses in these places, of operands with the same strides, computes
        the same GEMM on them: pointers are stored, tensor maps get theirs by `cuTensorMapReplaceAddress`.
        """
        raise NotImplementedError(f"backend {self.name!r} does not say where its parameters hold addresses")

    def partial_bytes(self, gemm: Gemm, plan: Plan) -> int:
        """Bytes of fp32 partial sums that split K needs; 0 without."""
        return 4 * gemm.grid.size * gemm.tile_m * gemm.tile_n if gemm.split_k > 1 else 0
