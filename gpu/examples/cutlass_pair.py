"""Two CUTLASS GEMMs plainly and with row semaphores: built with nvcc, compared and timed on torch's tensors.

Example: `python gpu/examples/cutlass_pair.py build --cutlass CUTLASS/include` writes libcutlass_pair.so; it
needs no GPU. `python gpu/examples/cutlass_pair.py time 1536,8192,4096,6144` prints both times.
"""

import argparse
import ctypes
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCE, LIBRARY = HERE / "cutlass_pair.cu", Path("libcutlass_pair.so")
INCLUDES = (ROOT, ROOT / "gpu")
# Without NDEBUG the call of an assertion makes the compiler end each tensor-core operation before the next.
FLAGS = ("-std=c++17", "-arch=sm_90a", "-O3", "-DNDEBUG", "--expt-relaxed-constexpr")
ROUNDS = 20
LIMIT_NS = 20_000_000_000


def build(cutlass: Path, library: Path = LIBRARY) -> None:
    """Compiles the pair, in about a minute. Raises `CalledProcessError`."""
    folders = [word for folder in (cutlass, *INCLUDES) for word in ("-I", str(folder))]
    command = ["nvcc", *FLAGS, "-shared", "-Xcompiler", "-fPIC", *folders, str(SOURCE), "-o", str(library)]
    subprocess.run(command, check=True)  # noqa: S603  # the caller's own compiler


class CutlassPair:
    """The library with torch's fp16 tensors: x (m, k), w1 (k, n1), w2 (n1, n2), hidden (m, n1), y (m, n2)."""

    def __init__(self, library: Path, operands: tuple[Any, ...]) -> None:
        import torch  # noqa: PLC0415  # building needs neither torch nor a GPU

        self._torch, self._library, self.operands = torch, ctypes.CDLL(str(library.absolute())), operands
        x, w1, w2, *_ = operands
        self.sizes = (x.shape[0], x.shape[1], w1.shape[1], w2.shape[1])
        self.sync = torch.zeros(self._library.sync_words(x.shape[0]), dtype=torch.int32, device="cuda")

    def run_plain(self) -> None:
        """Both, one after the other, on torch's current stream."""
        self._require(self._library.run_plain(*self._pointers(), *self.sizes, self._stream()))

    def run_synchronised(self, limit_ns: int = LIMIT_NS, *, leave_out_first: bool = False) -> None:
        """The second beside the first; `sync[0]` is not 0 afterwards if a wait gave up."""
        result = self._library.run_synchronised(
            *self._pointers(),
            ctypes.c_void_p(self.sync.data_ptr()),
            *self.sizes,
            ctypes.c_ulonglong(limit_ns),
            int(leave_out_first),
            self._stream(),
        )
        self._require(result)

    def _pointers(self) -> list[ctypes.c_void_p]:
        return [ctypes.c_void_p(tensor.data_ptr()) for tensor in self.operands]

    def _stream(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self._torch.cuda.current_stream().cuda_stream)

    def _require(self, status: int) -> None:
        if status:
            raise RuntimeError(f"CUTLASS's status is {status}; sizes {self.sizes} must be multiples of 8")


def main() -> int:
    """Builds, or compares and times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("build", "time"))
    parser.add_argument("sizes", nargs="?", default="1536,8192,4096,6144", help="m,k,n1,n2")
    parser.add_argument("--cutlass", type=Path, help="CUTLASS's include folder")
    parser.add_argument("--library", type=Path, default=LIBRARY)
    options = parser.parse_args()
    if options.what == "build":
        if options.cutlass is None:
            parser.error("build needs --cutlass, the include folder of CUTLASS 3.x or later")
        build(options.cutlass, options.library)
        return 0
    import torch  # noqa: PLC0415
    from triton_matmul import MatmulPair, graph_of, interleaved_us, medians_us  # noqa: PLC0415

    operands = MatmulPair(*map(int, options.sizes.split(","))).operands()
    pair = CutlassPair(options.library, operands)
    runs = {"plain": pair.run_plain, "row semaphores": partial(pair.run_synchronised, LIMIT_NS)}
    pair.run_plain()
    wanted = operands[-1].clone()
    graphs = {}
    for name, run in runs.items():
        operands[-2].fill_(torch.nan)
        operands[-1].fill_(torch.nan)
        run()
        if not torch.equal(operands[-1], wanted) or int(pair.sync[0]):
            raise ArithmeticError(f"{name}: not the plain pair's bits")
        graphs[name] = graph_of(run)
    medians = medians_us(interleaved_us(graphs, ROUNDS))
    gain = 100 * (1 - medians["row semaphores"] / medians["plain"])
    plain, row = (f"{medians[name]:.1f} us" for name in ("plain", "row semaphores"))
    print(f"{options.sizes}: plain {plain}, row semaphores {row}, {gain:+.1f} points")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
