"""Which files a kernel is made of, and one hash of what they say.

Example: a comment, a file's name or a variable's may change and the hash stays; another instruction,
constant, operator or order of statements changes it. Results of a benchmark are stale when it has changed.

The hash covers the tokens of a `.cu` file with all headers of ours put in where they are included, and of
headers that the generator writes for sample stages. Comments and white space are left out. Names of our own
count by the order in which they first appear, so that renaming one changes nothing and exchanging two does.
What the compiler or CUDA defines (`FOREIGN` and names that begin with `__`) counts by name; strings, where
the instructions of `asm` are, count as they are. The compiler and its version are not covered: they are in
each result's `versions`. It needs no compiler, so that a report can be made anywhere.
"""

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import wavesim.codegen
from wavesim.codegen.cuda import stage_header
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Grouped
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows

ROOT = Path(__file__).parents[1]
# <wavesim/codegen/semaphore.cuh> is found from here.
WAVESIM = Path(wavesim.codegen.__file__).parents[2]
INCLUDE = re.compile(r"^#include <([\w/.]+)>", re.MULTILINE)
_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/                      # comments
    |"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'       # strings, characters
    |[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.'])*  # names, numbers
    |\S""",
    re.DOTALL | re.VERBOSE,
)
# Names that mean something by themselves: of the language, of CUDA, and macros that the build sets.
_FOREIGN = """
alignas alignof asm auto bool break case char class const constexpr continue default define defined
delete do double else endif enum error explicit extern false final float for friend goto if ifdef ifndef
include inline int long maybe_unused mutable namespace new noexcept not nullptr once operator or override
and pragma private protected public register reinterpret_cast return short signed sizeof static
static_assert static_cast struct switch template this throw true try typedef typename undef union unroll
unsigned using virtual void volatile while float2 float4 uint2 uint4 ulonglong2 make_float2 make_float4
make_uint2 make_uint4 make_ulonglong2 dim3 threadIdx blockIdx blockDim gridDim warpSize x y z w min max
abs atomicAdd atomicExch atomicMax atomicCAS erff tanhf expf exp2f sqrtf WAVESIM_RECORD CUSYNC_MUTANT
CUSYNC_DELAY_NS MBARRIER_LIMIT_NS WAVESIM_WAIT_LIMIT_NS
"""
FOREIGN = frozenset(_FOREIGN.split())


def sources(path: Path) -> tuple[Path, ...]:
    """A source file and all of ours that it includes, in the order in which the compiler reads them."""
    paths: list[Path] = []
    _collect(path, paths)
    return tuple(paths)


def _collect(path: Path, paths: list[Path]) -> None:
    paths.append(path)
    for name in INCLUDE.findall(path.read_text()):
        header = _header(name)
        if header is not None and header not in paths:
            _collect(header, paths)


def _header(name: str) -> Path | None:
    """The file of ours that an include means; None for the generated header and CUDA's own."""
    return next((root / name for root in (ROOT, WAVESIM) if (root / name).is_file()), None)


@cache
def source_hash(*paths: Path) -> str:
    """Sixteen hex digits over kernels and what they include, as the module's docstring says."""
    digest = hashlib.sha256()
    for text in (*(_expanded(path, set()) for path in paths), *sample_headers()):
        for token in _tokens(text):
            digest.update(token.encode() + b"\0")
    return digest.hexdigest()[:16]


def _expanded(path: Path, seen: set[Path]) -> str:
    """The file's text with each header of ours in place of its first include."""
    seen.add(path)

    def text_of(match: re.Match[str]) -> str:
        header = _header(match[1])
        if header is None:
            return match[0]
        return "" if header in seen else _expanded(header, seen)

    return INCLUDE.sub(text_of, path.read_text())


def _tokens(text: str) -> Iterator[str]:
    """Tokens without comments; names of our own as numbers."""
    names: dict[str, int] = {}
    for token in _TOKEN.findall(text):
        if token.startswith(("//", "/*")):
            continue
        is_name = token[0].isalpha() or token[0] == "_"
        if not is_name or token in FOREIGN or token.startswith("__"):
            yield token
        else:
            yield f"name {names.setdefault(token, len(names))}"


def sample_headers() -> Iterator[str]:
    """What the generator writes for a pair of GEMMs: row semaphores in grouped order, and tile ones."""
    first, second = (Stage(name, Gemm(name, 128, 128, 128, 64, 64)) for name in ("gemm1", "gemm2"))
    pipeline = Pipeline("pair", [first, second], [gemm_rows(first, second)])
    for plan in (SemaphoreSync(RowSync(), order=Grouped(8)), SemaphoreSync(TileSync())):
        yield from (stage_header(pipeline, plan, stage.name).text for stage in pipeline.stages)
