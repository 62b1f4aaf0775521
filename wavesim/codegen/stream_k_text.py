"""Stream-K's partition as CUDA, written from the Python functions that the simulator uses.

Example: `return iterations * block // blocks` becomes `return iterations * block / blocks;`. Run
`python -m wavesim.codegen.stream_k_text` in a checkout after a change to `plan/stream_k_partition.py`; a test
says when the kernel's header is old.
"""

import ast
import inspect
from collections.abc import Callable
from pathlib import Path

from wavesim.plan.stream_k_partition import FUNCTIONS
from wavesim.safe_io.writing import write_text

HEADER = Path(__file__).parents[2] / "gpu/wavesim_gpu/kernels/gemm/sm90/stream_k_partition.cuh"
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%", ast.Lt: "<"}
_TOP = """\
// Stream-K's partition. Written by wavesim/codegen/stream_k_text.py from wavesim/plan/stream_k_partition.py,
// which says what each function returns; change it there.
#pragma once

namespace stream_k {

#if defined(__CUDACC__)
#define STREAM_K_FUNCTION __host__ __device__ __forceinline__ constexpr
#else
#define STREAM_K_FUNCTION constexpr
#endif

STREAM_K_FUNCTION long long min(long long a, long long b) { return a < b ? a : b; }
STREAM_K_FUNCTION long long max(long long a, long long b) { return a > b ? a : b; }
"""


def partition_header() -> str:
    """The whole header."""
    return "\n".join([_TOP, *map(_function, FUNCTIONS), "}  // namespace stream_k"]) + "\n"


def _function(function: Callable[..., int]) -> str:
    """One `return` of sums, products, quotients of non-negative integers, min, max and conditions."""
    (definition,) = ast.parse(inspect.getsource(function)).body
    assert isinstance(definition, ast.FunctionDef)
    result = definition.body[-1]
    assert isinstance(result, ast.Return), f"{function.__name__} must end in a return"
    assert result.value is not None, f"{function.__name__} must return a value"
    parameters = ", ".join(f"long long {argument.arg}" for argument in definition.args.args)
    return (
        f"STREAM_K_FUNCTION long long {definition.name}({parameters}) {{\n"
        f"    return {_text(result.value)};\n}}\n"
    )


def _text(node: ast.expr) -> str:
    match node:
        case ast.Name(name):
            return name
        case ast.Constant(int(value)):
            return str(value)
        case ast.BinOp(left, operator, right):
            return f"({_text(left)} {_OPERATORS[type(operator)]} {_text(right)})"
        case ast.IfExp(test, body, orelse):
            return f"({_text(test)} ? {_text(body)} : {_text(orelse)})"
        case ast.Compare(left, operators, rights):
            sides = [left, *rights]
            parts = [
                f"{_text(side)} {_OPERATORS[type(operator)]} {_text(other)}"
                for side, operator, other in zip(sides, operators, rights, strict=False)
            ]
            return f"({' && '.join(parts)})"
        case ast.Call(ast.Name(name), arguments):
            return f"{name}({', '.join(map(_text, arguments))})"
    raise TypeError(f"no CUDA for {ast.dump(node)}")


if __name__ == "__main__":
    write_text(HEADER, partition_header())
