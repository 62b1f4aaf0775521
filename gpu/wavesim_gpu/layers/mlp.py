"""`mlp(x, w1, w2)`: an MLP on the caller's arrays, by whichever way is predicted, or was measured, fastest.

Example: `mlp(x, up.weight.t(), down.weight.t(), gate=gate.weight.t(), activation="swiglu")` is Llama's MLP on
PyTorch's current stream. The first call with new shapes chooses by simulation, in milliseconds, among our
kernels under several plans and cuBLASLt; with `tune=True` it measures the best of them, once for all
processes.
It can be captured in a graph from the second call on. Under `torch.compile`, under autocast with fp32 and
where a gradient is wanted, the call goes to PyTorch's operation `wavesim::mlp`.
"""

import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from wavesim.errors import DescriptionError, DeviceError
from wavesim.safe_io.bounds import real
from wavesim_gpu.driver.tensors import (
    Tensor,
    copied,
    current_stream,
    empty_like,
    is_capturing,
    is_torch,
    on_device,
    on_device_of,
    tensor_of,
    workspace,
)
from wavesim_gpu.layers import prepared, tuning
from wavesim_gpu.layers.arguments import Layout, layout_of
from wavesim_gpu.layers.choose import Choice
from wavesim_gpu.layers.prepared import PreparedLayout

LIMIT_S = 30.0
LIMIT_NS = round(LIMIT_S * 1e9)
SHORTEST_S, LONGEST_S = 1e-9, 86400.0
MOST_STREAMS = 64  # whose scratch memory is kept
MOST_SCRATCH_BYTES = 256 << 20  # that are kept: a call that needs more takes far longer than to allocate it
NAMES = ("x", "w1", "w2", "gate", "b1", "b_gate", "b2", "out")
WITHOUT_DATA = ("FakeTensor", "FunctionalTensor")  # what PyTorch traces with

_layouts = prepared.layouts
# PyTorch's graphs keep their memory; CuPy's pool would hand it out again.
_in_graphs: list[tuple[Tensor, Tensor]] = []
_scratch: dict[tuple[int, int], "_Scratch"] = {}


def _no() -> bool:
    return False


# PyTorch's own functions, once it is there: each is a global of its own, as that is found fastest.
_is_compiling: Callable[[], bool] = _no
_is_grad_enabled: Callable[[], bool] = _no
_is_torch_capturing: Callable[[], bool] = _no
_modes: Callable[[], int] = _no  # how many see every operation, as tracers do
_transform: Callable[[], int | None]
_forward_ad: Any  # the module that knows whether derivatives are taken forward
_stream_of: Callable[[int], int]
_current_device: Callable[[], int]
_empty: Callable[[tuple[int, ...], tuple[int, ...], Any], Any]


def _meet_torch() -> None:
    """Binds PyTorch's functions."""
    import torch  # noqa: PLC0415  # there: somebody has imported it

    global _is_compiling, _is_grad_enabled, _is_torch_capturing, _stream_of, _current_device  # noqa: PLW0603
    global _empty, _modes, _transform, _forward_ad  # noqa: PLW0603
    _forward_ad = torch.autograd.forward_ad
    _is_grad_enabled = torch.is_grad_enabled
    _is_torch_capturing = torch.cuda.is_current_stream_capturing
    # What PyTorch's compiler calls in the code that it writes: the public functions take microseconds.
    inner = torch._C  # noqa: SLF001
    _transform = inner._functorch.maybe_current_level  # noqa: SLF001
    _modes = inner._len_torch_dispatch_stack  # noqa: SLF001
    if hasattr(inner, "_cuda_getCurrentRawStream"):
        _is_torch_capturing = inner._cuda_isCurrentStreamCapturing  # noqa: SLF001
        _stream_of, _current_device = inner._cuda_getCurrentRawStream, inner._cuda_getDevice  # noqa: SLF001
    guards = getattr(getattr(inner, "_dynamo", None), "guards", None)
    _empty = getattr(guards, "_empty_strided_cuda", None) or _plainly_empty
    _is_compiling = torch.compiler.is_compiling


def _plainly_empty(shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Any:
    """On the current device, where PyTorch has nothing faster."""
    import torch  # noqa: PLC0415  # there: somebody has its tensors

    return torch.empty_strided(shape, strides, dtype=dtype, device="cuda")


if sys.modules.get("torch"):
    _meet_torch()


def mlp(  # noqa: PLR0913  # what an MLP has
    x: Any,
    w1: Any,
    w2: Any,
    *,
    gate: Any = None,
    activation: str | None = None,
    b1: Any = None,
    b_gate: Any = None,
    b2: Any = None,
    out: Any = None,
    tune: bool = False,
    limit_s: float = LIMIT_S,
) -> Any:
    """Returns act(x w1 + b1) w2 + b2, of shape (..., n2), from x's library, on its current stream.

    x (..., k), w1 (k, n1), w2 (n1, n2): fp16 or bf16, on one GPU, row-major or column-major as
    `weight.t()` is; x is copied where its rows have no common stride. `activation`: None, "gelu" (with tanh),
    "gelu-exact", "relu", "silu", or with a gate "swiglu", "geglu", "geglu-exact": act(x gate + b_gate) times
    (x w1 + b1). Without `gate`, w1 is then (k, 2 n1), the gate's columns first, and b1 alike. The result is
    written to `out` where it is given. `tune=True` measures candidates once, for seconds. Raises
    `DescriptionError` that names the argument. Where a wait on the GPU takes longer than `limit_s`, because
    other programs hold it, the call's result is NaN and the next call or `wavesim_gpu.check()` raises
    `FailedCallsError`, which names the call; after replays of a graph `check()` does.
    """
    if _is_compiling is _no and sys.modules.get("torch"):
        _meet_torch()
    if _is_compiling():
        return _torch_op((x, w1, w2, gate, b1, b_gate, b2, out), activation)
    arrays = (x, w1, w2, gate, b1, b_gate, b2, out)
    is_seen = False
    key: tuple[Any, ...] | None = None
    try:
        is_seen = (_is_grad_enabled() and _needs_gradient(arrays)) or _is_intercepted()
        # What a prepared layout depends on, and nothing else: no address and no value.
        key = (
            activation,
            *(type(x), x.dtype, x.get_device(), x.shape, x.stride()),
            *(type(w1), w1.dtype, w1.get_device(), w1.shape, w1.stride()),
            *(type(w2), w2.dtype, w2.get_device(), w2.shape, w2.stride()),
            gate if gate is None else _layout_key(gate),
            b1 if b1 is None else _layout_key(b1),
            b_gate if b_gate is None else _layout_key(b_gate),
            b2 if b2 is None else _layout_key(b2),
        )
        result = _layouts.get(key)
    except (AttributeError, TypeError, RuntimeError):  # not PyTorch's, or without strides
        key = result = None
    if is_seen and is_torch(x):
        return _torch_op(arrays, activation)
    if result is None or out is not None or tune:
        return _checked(key, arrays, activation, tune, limit_s)
    return _on_torch(result, arrays, LIMIT_NS if limit_s == LIMIT_S else _limit_ns(limit_s))


def way_of(  # noqa: PLR0913  # as `mlp`
    x: Any,
    w1: Any,
    w2: Any,
    *,
    gate: Any = None,
    activation: str | None = None,
    b1: Any = None,
    b_gate: Any = None,
    b2: Any = None,
    out: Any = None,
) -> Choice:
    """Which way `mlp` takes for these arguments, with its predicted or measured times; nothing is computed.

    Raises `DescriptionError` as `mlp` does.
    """
    given = _tensors((x, w1, w2, gate, b1, b_gate, b2, out))
    layout = layout_of(given, activation)
    with on_device_of(given["x"]):
        return prepared.ready(layout, is_captured=False).chosen.choice


def _layout_key(array: Any) -> tuple[Any, ...]:
    return type(array), array.dtype, array.get_device(), array.shape, array.stride()


def _is_intercepted() -> bool:
    """Whether a mode or a transform of PyTorch, such as vmap, stands between a call and the GPU."""
    if _modes is _no:
        return False
    return bool(_modes()) or _transform() is not None or _forward_ad._current_level >= 0  # noqa: SLF001


def _needs_gradient(arrays: tuple[Any, ...]) -> bool:
    x, w1, w2, *others = arrays
    if x.requires_grad or w1.requires_grad or w2.requires_grad:
        return True
    return any(array is not None and array.requires_grad for array in others)


def _torch_op(arrays: tuple[Any, ...], activation: Any) -> Any:
    """PyTorch's operation, which has a backward pass and can be traced."""
    # Only where there is PyTorch.
    from wavesim_gpu.layers.torch_formula import MlpOperands  # noqa: PLC0415
    from wavesim_gpu.layers.torch_operator import operation  # noqa: PLC0415

    x, w1, w2, gate, b1, b_gate, b2, out = arrays
    if out is not None:
        raise DescriptionError("out is given where a gradient is wanted or a graph is traced; leave it out")
    return operation(MlpOperands(x, w1, w2, gate, activation, b1, b_gate, b2))


def _in_torch_ops(arrays: tuple[Any, ...], activation: Any) -> Any:
    """By PyTorch alone: neither ours nor cuBLASLt can be had, or x begins where TMA cannot read."""
    from wavesim_gpu.layers.torch_formula import MlpOperands, forward  # noqa: PLC0415  # as above

    x, w1, w2, gate, b1, b_gate, b2, out = arrays
    result = forward(MlpOperands(x, w1, w2, gate, activation, b1, b_gate, b2))
    return result if out is None else out.copy_(result)


def _limit_ns(limit_s: float) -> int:
    return round(real("limit_s", limit_s, SHORTEST_S, LONGEST_S) * 1e9)


def _on_torch(layout: PreparedLayout, arrays: tuple[Any, ...], limit_ns: int) -> Any:
    """Allocates and launches on PyTorch's current stream."""
    x, w1, w2, gate, b1, b_gate, b2, out = arrays
    device = layout.device
    if _current_device() != device:
        with on_device(device):
            return _on_torch(layout, arrays, limit_ns)
    is_captured = _is_torch_capturing()
    if not is_captured:
        prepared.raise_known_failures()
    rows = x.contiguous() if layout.copies_x else x
    result = _empty(layout.out_shape, layout.out_strides, x.dtype) if out is None else _to_be_written(out)
    addresses = (
        rows.data_ptr(),
        w1.data_ptr(),
        w2.data_ptr(),
        0 if gate is None else gate.data_ptr(),
        0 if b1 is None else b1.data_ptr(),
        0 if b_gate is None else b_gate.data_ptr(),
        0 if b2 is None else b2.data_ptr(),
        result.data_ptr(),
    )
    stream = _stream_of(device)
    if not layout.takes(addresses):
        layout = layout.for_any_address()
    if not layout.can_launch:
        return _in_torch_ops(arrays, layout.layout.shape.activation)
    if is_captured or layout.scratch_bytes > MOST_SCRATCH_BYTES:
        memory = _bytes_of_torch(layout.scratch_bytes, device)
        layout.launch(addresses, memory.data_ptr(), stream, is_captured, limit_ns)
        return result
    scratch = _scratch.get((device, stream)) or _new_scratch(device, stream)
    with scratch.lock:  # else another thread's call on the stream would write there between our launches
        if scratch.size < layout.scratch_bytes:
            scratch.grow(_bytes_outside_pools(layout.scratch_bytes, device), layout.scratch_bytes)
        layout.launch(addresses, scratch.address, stream, False, limit_ns)
    return result


def _bytes_of_torch(count: int, device: int) -> Any:
    import torch  # noqa: PLC0415  # there: somebody has its tensors

    return torch.empty(count, dtype=torch.uint8, device=torch.device("cuda", device))


def _bytes_outside_pools(count: int, device: int) -> Any:
    """The same on the same stream, to be kept, so by a thread of its own.

    What this thread allocates may go to a pool for now: torch.compile's CUDA graphs warm up in one, which
    they use again from the start, whoever still has memory of it.
    """
    import torch  # noqa: PLC0415  # there: somebody has its tensors

    stream = torch.cuda.current_stream(device)

    def made() -> Any:
        with torch.cuda.stream(stream):
            return _bytes_of_torch(count, device)

    with ThreadPoolExecutor(1) as own:
        return own.submit(made).result()


def _to_be_written(out: Any) -> Any:
    """Has PyTorch know that a tensor changes, so that no backward pass uses it for what it was."""
    import torch  # noqa: PLC0415  # there: it is one of its tensors

    if not out.is_inference():  # those have no versions
        torch.autograd.graph.increment_version(out)
    return out


class _Scratch:
    """A stream's memory between two products: calls on a stream follow each other, so one does for all.

    It was allocated on that stream, so that what is left of it when it grows is used again after it.
    """

    __slots__ = ("_memory", "address", "lock", "size")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._memory: Any = None
        self.address = self.size = 0

    def grow(self, memory: Any, size: int) -> None:
        """Takes larger memory in place of what it had."""
        self._memory, self.address, self.size = memory, memory.data_ptr(), size


def _new_scratch(device: int, stream: int) -> _Scratch:
    while len(_scratch) >= MOST_STREAMS:
        _scratch.pop(next(iter(_scratch)), None)
    return _scratch.setdefault((device, stream), _Scratch())


def _checked(key: Any, arrays: tuple[Any, ...], activation: Any, tune: bool, limit_s: float) -> Any:
    """A call whose arguments are looked at one by one: the first of its layout, and those with options."""
    limit_ns = _limit_ns(limit_s)
    if is_torch(arrays[0]) and _is_for_torch(arrays):
        return _torch_op(arrays, activation)
    given = _tensors(arrays)
    layout = layout_of(given, activation)
    x = given["x"]
    if layout.is_empty:
        return given["out"].array if "out" in given else empty_like(x, layout.out_shape).array
    with on_device_of(x):
        result = _found(layout, x, tune)
        if x.library == "torch":
            if key is not None:
                prepared.keep(key, result)
            return _on_torch(result, arrays, limit_ns)
        return _on_cupy(result, given, limit_ns)


def _found(layout: Layout, x: Tensor, tune: bool) -> PreparedLayout:
    is_captured = is_capturing(x)
    ready = prepared.ready(layout, is_captured=is_captured)
    if tune and not ready.chosen.is_tuned:
        if is_captured:
            raise DescriptionError(
                f"mlp of {prepared.described(layout.shape)} is tuned while a graph is captured: call it with "
                "tune=True once before"
            )
        tuning.tune(layout)
        ready = prepared.ready(layout, is_captured=False)
    return ready


def _is_for_torch(arrays: tuple[Any, ...]) -> bool:
    """Whether PyTorch's operation is to see to it: it traces, casts or differentiates."""
    import torch  # noqa: PLC0415  # there: x is one of its tensors

    result = [array for array in arrays if array is not None and is_torch(array)]
    if _is_intercepted() or any(array.device.type == "meta" for array in result):
        return True
    if any(type(array).__name__ in WITHOUT_DATA for array in result):
        return True
    if torch.is_autocast_enabled(result[0].device.type):
        return any(array.dtype == torch.float32 for array in result)
    return torch.is_grad_enabled() and any(array.requires_grad for array in result)


def _tensors(arrays: tuple[Any, ...]) -> Mapping[str, Tensor]:
    pairs = zip(NAMES, arrays, strict=True)
    return {name: tensor_of(name, array) for name, array in pairs if array is not None or name in NAMES[:3]}


def _on_cupy(layout: PreparedLayout, given: Mapping[str, Tensor], limit_ns: int) -> Any:
    """Allocates and launches on CuPy's current stream."""
    x = given["x"]
    stream = current_stream(x)
    is_captured = is_capturing(x)
    if not is_captured:
        prepared.raise_known_failures()
    rows = copied(x) if layout.copies_x else x
    result = given.get("out") or empty_like(x, layout.out_shape)
    addresses = [rows.address, *(given[name].address if name in given else 0 for name in NAMES[1:-1])]
    places = (*addresses, result.address)
    if not layout.takes(places):
        layout = layout.for_any_address()
    if not layout.can_launch:
        raise DeviceError(
            f"mlp of {prepared.described(layout.layout.shape)} cannot run: {layout.chosen.choice.reason}"
        )
    scratch = workspace(x, layout.scratch_bytes)
    if is_captured:
        _in_graphs.append((rows, scratch))
    layout.launch(places, scratch.address, stream, is_captured, limit_ns)
    return result.array
