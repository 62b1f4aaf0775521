"""The threads of a litmus test as PTX kernels of one thread each, for lint to read.

Example: `wait ld.acquire.gpu [flag] >= 1` is a loop of a load, a comparison and a branch; `st.weak [tile], 1`
a store to global memory. Parameter 0 of every kernel is the data, parameter 1 the flags.
"""

from collections.abc import Sequence

from wavesim.litmus import LitmusTest, LitmusThread
from wavesim.litmus.program import Statement

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"
DATA, FLAGS = ("0",), ("1",)  # parameters, as lint names them
WORD_BYTES = 4


def ptx_of(test: LitmusTest, data: Sequence[str]) -> str:
    """A kernel per thread. Barriers and copies are left out: for tests that have neither."""
    kernels = [_kernel(thread, list(data), _flags(test, data)) for thread in test.threads]
    return HEAD + "\n".join(kernels)


def _flags(test: LitmusTest, data: Sequence[str]) -> list[str]:
    return [name for name in test.variables if name not in data]


def _kernel(thread: LitmusThread, data: list[str], flags: list[str]) -> str:
    name = thread.name.replace(" ", "_")
    lines = [
        f".visible .entry {name}(.param .u64 {name}_param_0, .param .u64 {name}_param_1)",
        "{",
        ".reg .pred %p<99>;\n.reg .b32 %r<99>;\n.reg .b64 %rd<5>;",
        f"ld.param.u64 %rd1, [{name}_param_0];\nld.param.u64 %rd2, [{name}_param_1];",
        "cvta.to.global.u64 %rd3, %rd1;\ncvta.to.global.u64 %rd4, %rd2;",
    ]
    for number, statement in enumerate(thread.statements, start=1):
        lines.append(_instruction(statement, number, data, flags))
    return "\n".join([*lines, "ret;", "}"])


def _instruction(statement: Statement, number: int, data: list[str], flags: list[str]) -> str:
    """One instruction; a wait is a loop around it. A result is stored, so that it is used."""
    if not statement.variables:
        return f"{statement.text};"
    variable = statement.variables[0]
    base, names = ("%rd3", data) if variable in data else ("%rd4", flags)
    place = f"[{base}+{WORD_BYTES * names.index(variable)}]"
    order = "".join(f".{word}" for word in (statement.order, statement.scope) if word and word != "weak")
    value = next((word for word in reversed(statement.values) if word.lstrip("-").isdigit()), "1")
    operation = f"{statement.what}{order}.global"
    if statement.what in ("ld", "st"):
        proxy = ".nc" if statement.proxy == "texture" else ""
        is_load = statement.what == "ld"
        body = f"{operation}{proxy}.u32 " + (f"%r{number}, {place};" if is_load else f"{place}, {value};")
    else:
        kind = next((word for word in statement.suffixes if word in ("add", "exch")), "add")
        body = (
            f"{operation}.{kind}.u32 "
            + (f"%r{number}, " if statement.what == "atom" else "")
            + f"{place}, {value};"
        )
    if statement.awaited is None:
        return body
    loop = f"$L_wait_{number}"
    test = f"setp.lt.u32 %p{number}, %r{number}, {statement.awaited.value};"
    return f"{loop}:\n{body}\n{test}\n@%p{number} bra {loop};"
