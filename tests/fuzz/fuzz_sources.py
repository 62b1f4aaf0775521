"""CUDA C++ for `wavesim lint`: what no compiler likes, includes of what there is, macros without end."""

import random
from pathlib import Path

from harness import Target
from judging import require
from mutations import with_bytes_changed

from wavesim.errors import CompileError, RecordingError
from wavesim_gpu.driver.user_sources import compile_user_source

WORDS = [
    b'#include "/etc/passwd"\n',
    b'#include "/dev/zero"\n',
    b"#include <cuda_fp16.h>\n",
    b'#line 7 "/etc/passwd"\n',
    b"#define A(x) x x x x\nA(A(A(A(A(A(A(A(int a;))))))))\n",
    b"template <int N> struct s : s<N + 1> {};\ns<0> t;\n",
    b"__global__ void f(int* p) { while (atomicAdd(p, 0) < 3) {} }\n",
    b'asm volatile("bad %0;" :: "r"(1));',
    b"#error hush\n",
    b"(" * 2_000,
    b"/*",
    b'R"(',
    b"\xff\xfe\0",
]


def made(chance: random.Random, data: bytes) -> bytes:
    """The source with other words."""
    words = [chance.choice(WORDS) for _ in range(chance.randrange(1, 4))]
    changed = with_bytes_changed(chance, data) if chance.random() < 0.5 else data
    return b"".join(chance.sample([*words, changed], len(words) + 1))


def call(path: Path) -> bool:
    """Compiles it within its bounds. Returns whether it was accepted."""
    source = path.with_suffix(".cu")
    source.write_bytes(path.read_bytes())
    try:
        ptx, _ = compile_user_source(source, "sm_90a", seconds=4)
    except CompileError as error:
        require("root:" not in str(error), "a file outside of the folders is quoted")
        raise RecordingError(str(error)[:900].replace("\n", "; ")) from None  # a log has lines
    require("root:" not in ptx, "a file outside of the folders is in the code")
    return True


TARGET = Target(made, call, needs=["cuda.bindings"])
