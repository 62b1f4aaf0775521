"""What a PTX opcode with its modifiers does to memory: operation, state space, order, scope, bytes.

Example: `meaning("ld.acquire.gpu.global.u32")` is a LOAD of 4 bytes of space "global", order "acquire", scope
"gpu"; `meaning("frobnicate.v2")` is OTHER, and its first operand is taken for what it writes.

Source: PTX ISA 9.0, chapters 8 (memory consistency model) and 9 (instruction set).
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

from wavesim.lint.instruction import Op, Ordering, Scope, Space
from wavesim.lint.opcodes import Meaning, plain_opcodes

Decoder = Callable[[Sequence[str]], Meaning]
_SPACES: dict[str, Space] = {
    "global": "global",
    "shared": "shared",
    "shared::cta": "shared",
    "shared::cluster": "shared::cluster",
    "local": "local",
    "param": "param",
    "param::entry": "param",
    "param::func": "param",
    "const": "const",
}
_ORDERS: dict[str, Ordering] = {
    "mmio": "mmio",
    "volatile": "volatile",
    "nc": "nc",
    "sc": "sc",
    "acq_rel": "acq_rel",
    "acquire": "acquire",
    "release": "release",
    "relaxed": "relaxed",
    "weak": "weak",
}
_SCOPES: dict[str, Scope] = {"cta": "cta", "cluster": "cluster", "gpu": "gpu", "sys": "sys", "gl": "gpu"}
_VECTORS = {"v2": 2, "v4": 4, "v8": 8, "x2": 2, "x4": 4}
_WIDTHS = {
    "f16x2": 4,
    "bf16x2": 4,
    "e4m3": 1,
    "e5m2": 1,
    "e4m3x2": 2,
    "e5m2x2": 2,
    "bf16": 2,
    "tf32": 4,
    "m8n8": 4,
}


@lru_cache(maxsize=4096)  # hostile text may hold any number of opcodes
def meaning(opcode: str) -> Meaning:
    """What an opcode with its modifiers does, such as "st.release.sys.global.v2.u32"."""
    base, *modifiers = opcode.split(".")
    if base in _PLAIN:
        return _PLAIN[base]
    return _FAMILIES[base](modifiers) if base in _FAMILIES else Meaning()


def _bytes(modifiers: Sequence[str]) -> int:
    width = next((_width(word) for word in reversed(modifiers) if _width(word)), 0)
    return width * next((_VECTORS[word] for word in modifiers if word in _VECTORS), 1)


def _width(word: str) -> int:
    if word in _WIDTHS:
        return _WIDTHS[word]
    return int(word[1:]) // 8 if word[:1] in "busf" and word[1:] in ("8", "16", "32", "64", "128") else 0


def _space(modifiers: Sequence[str], otherwise: Space = "generic") -> Space:
    return next((_SPACES[word] for word in modifiers if word in _SPACES), otherwise)


def _order(modifiers: Sequence[str], otherwise: Ordering) -> Ordering:
    return next((order for word, order in _ORDERS.items() if word in modifiers), otherwise)


def _scope(modifiers: Sequence[str], otherwise: Scope = "") -> Scope:
    return next((_SCOPES[word] for word in modifiers if word in _SCOPES), otherwise)


def _access(
    op: Op, order: Ordering, scope: Scope = "", writes: bool = True
) -> Callable[[Sequence[str]], Meaning]:

    def decode(modifiers: Sequence[str]) -> Meaning:
        result = _order(modifiers, order)
        # ld.volatile is a relaxed access of system scope that is not merged with others (section 8.4.1).
        reach = _scope(modifiers, "sys" if result in ("volatile", "mmio") else scope)
        return Meaning(op, _space(modifiers), result, reach, _bytes(modifiers), writes)

    return decode


def _texture(modifiers: Sequence[str]) -> Meaning:
    return Meaning(Op.LOAD, "global", "nc", "", _bytes(modifiers[:-1]))


def _matrix_load(modifiers: Sequence[str]) -> Meaning:
    return Meaning(Op.LOAD, _space(modifiers), "weak", "", _bytes(modifiers))


def _matrix_store(modifiers: Sequence[str]) -> Meaning:
    return _matrix_load(modifiers)._replace(op=Op.STORE, writes=False)


def _membar(modifiers: Sequence[str]) -> Meaning:
    if "proxy" in modifiers:
        return Meaning(Op.PROXY_FENCE, writes=False)
    # The older name of fence.sc (section 9.7.13.4).
    return Meaning(Op.FENCE, "", "sc", _scope(modifiers, "sys"), writes=False)


def _fence(modifiers: Sequence[str]) -> Meaning:
    if "mbarrier_init" in modifiers:  # orders the initialisation of mbarriers and nothing else
        return Meaning(writes=False)
    order, scope = _order(modifiers, ""), _scope(modifiers)
    if "proxy" in modifiers:
        space: Space = "global" if "async.global" in ".".join(modifiers) else _space(modifiers, "")
        return Meaning(Op.PROXY_FENCE, space, order, scope, writes=False)
    return Meaning(Op.FENCE, "", order or "acq_rel", scope, writes=False)


def _barrier(modifiers: Sequence[str]) -> Meaning:
    words = [word for word in modifiers if word not in ("cta", "aligned")]
    if words[:1] == ["warp"]:
        return Meaning(Op.WARP_SYNC, writes=False)
    if words[:1] == ["cluster"]:
        if "wait" in words:
            return Meaning(Op.CLUSTER_WAIT, "", _order(words, "acquire"), "cluster", writes=False)
        return Meaning(Op.CLUSTER_ARRIVE, "", _order(words, "release"), "cluster", writes=False)
    if "arrive" in words:
        return Meaning(Op.BARRIER_ARRIVE, scope="cta", writes=False)
    return Meaning(Op.BARRIER, scope="cta", writes="red" in words)


_MBARRIER = {
    "init": Op.MBARRIER_INIT,
    "expect_tx": Op.MBARRIER_EXPECT,
    "arrive": Op.MBARRIER_ARRIVE,
    "arrive_drop": Op.MBARRIER_ARRIVE,
    "test_wait": Op.MBARRIER_TEST,
    "try_wait": Op.MBARRIER_TEST,
}


def _mbarrier(modifiers: Sequence[str]) -> Meaning:
    name = modifiers[0] if modifiers else ""
    op = _MBARRIER.get(name, Op.OTHER)
    is_test = op is Op.MBARRIER_TEST
    default: Ordering = "acquire" if is_test else "release" if op is Op.MBARRIER_ARRIVE else "relaxed"
    if "expect_tx" in modifiers:  # of arrive.expect_tx too, which does both
        op = Op.MBARRIER_EXPECT
    space = _space(modifiers, "shared")
    return Meaning(
        op, space, _order(modifiers, default), _scope(modifiers, "cta"), 8, is_test or name == "arrive"
    )


def _copy(modifiers: Sequence[str]) -> Meaning:
    words = set(modifiers)
    if modifiers[:1] == ["reduce"]:
        return _bulk(Op.BULK_REDUCE, modifiers)
    if "bulk" in words:
        return _bulk_copy(modifiers)
    if "mbarrier" in words:
        return Meaning(Op.ASYNC_ARRIVE, "shared", writes=False)
    if "commit_group" in words:
        return Meaning(Op.ASYNC_COMMIT, writes=False)
    if words & {"wait_group", "wait_all"}:
        return Meaning(Op.ASYNC_WAIT, writes=False)
    return Meaning(Op.ASYNC_COPY, "global", "weak", writes=False)


def _bulk_copy(modifiers: Sequence[str]) -> Meaning:
    words = set(modifiers)
    if "commit_group" in words:
        return Meaning(Op.BULK_COMMIT, writes=False)
    if "wait_group" in words:
        return Meaning(Op.BULK_WAIT_READ if "read" in words else Op.BULK_WAIT, writes=False)
    if "prefetch" in words:
        return Meaning(Op.BULK_PREFETCH, "global", writes=False)
    ends = [word for word in modifiers if word in _SPACES]
    return _bulk(Op.BULK_STORE if ends[:1] == ["global"] else Op.BULK_LOAD, modifiers)


def _bulk(op: Op, modifiers: Sequence[str]) -> Meaning:
    ends = [_SPACES[word] for word in modifiers if word in _SPACES]
    # Between blocks of a cluster neither end is global: it then counts as what it completes like.
    space: Space = "global" if "global" in ends else "shared::cluster"
    return Meaning(op, space, "weak", writes=False)


def _grid(modifiers: Sequence[str]) -> Meaning:
    return Meaning(Op.GRID_WAIT if "wait" in modifiers else Op.GRID_TRIGGER, writes=False)


def _multimem(modifiers: Sequence[str]) -> Meaning:
    if "ld_reduce" in modifiers:
        return _access(Op.LOAD, "weak", "gpu")(modifiers)
    if "red" in modifiers:
        return _access(Op.REDUCTION, "relaxed", "gpu", False)(modifiers)
    if "st" in modifiers:
        return _access(Op.STORE, "weak", "gpu", False)(modifiers)
    return Meaning(writes=False)  # multimem.cp.async.bulk and what is to come


def _warpgroup(modifiers: Sequence[str]) -> Meaning:
    return Meaning(writes="mma_async" in modifiers)


def _tensor_memory(modifiers: Sequence[str]) -> Meaning:
    return Meaning(Op.OTHER, "tensor", writes=modifiers[:1] == ["ld"])


_PLAIN = plain_opcodes("ptx") | dict.fromkeys(
    ("prefetch", "prefetchu"), Meaning(Op.PREFETCH, "global", writes=False)
)
_FAMILIES: dict[str, Decoder] = {
    "ld": _access(Op.LOAD, "weak"),
    "ldu": _access(Op.LOAD, "nc"),
    "st": _access(Op.STORE, "weak", writes=False),
    "atom": _access(Op.ATOMIC, "relaxed", "gpu"),
    "red": _access(Op.REDUCTION, "relaxed", "gpu", writes=False),
    "multimem": _multimem,
    "tex": _texture,
    "tld4": _texture,
    "suld": _texture,
    "ldmatrix": _matrix_load,
    "stmatrix": _matrix_store,
    "membar": _membar,
    "fence": _fence,
    "bar": _barrier,
    "barrier": _barrier,
    "mbarrier": _mbarrier,
    "cp": _copy,
    "griddepcontrol": _grid,
    "wgmma": _warpgroup,
    "tcgen05": _tensor_memory,
}
