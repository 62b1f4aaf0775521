"""Machine code keeps of PTX what docs/machine-code.md says, and lint reads the same in both.

Each row of the page's tables is compiled again, for four architectures.
"""

import pytest
from lowering import ARCHITECTURES, ordering, rows, table

from wavesim.lint.instruction import Op

pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")

# What an instruction of PTX that orders is made of; the others become one instruction of the same operation.
RELEASES = {"release", "acq_rel"}
ACQUIRES = {"acquire", "acq_rel"}
ACCESSES = {Op.LOAD, Op.STORE, Op.ATOMIC, Op.REDUCTION}
STRONG = {"volatile": "relaxed", "acquire": "relaxed", "release": "relaxed", "acq_rel": "relaxed"}
# What does not show in machine code: an order that the operation has by itself.
NO_ORDER = {Op.CLUSTER_ARRIVE, Op.CLUSTER_WAIT}


def scope_of(instruction):
    """Machine code knows no cluster: its accesses and fences are those of the GPU."""
    return {"cluster": "gpu", "cta": "cta", "": "cta"}.get(instruction.scope, instruction.scope)


def lowered(instruction):
    """The operations, orders and scopes of machine code that one instruction of PTX becomes."""
    op, order, scope = instruction.op, instruction.order, scope_of(instruction)
    # At the scope of a block the L1 is shared, and there is nothing to drop.
    invalidate = [] if scope == "cta" else [(Op.INVALIDATE, "", "")]
    if op in ACCESSES:
        before = [(Op.FENCE, "acq_rel", scope)] if order in RELEASES else []
        after = invalidate if order in ACQUIRES else []
        if instruction.space == "shared":
            return [(op, "", "")]
        # A load or atomic right before CCTL.IVALL is read as an acquire.
        strong = "acquire" if after else STRONG.get(order, order)
        return [*before, (op, strong, scope if order not in {"weak", "nc"} else ""), *after]
    if op is Op.FENCE:
        return [(op, order, scope), *invalidate]
    if op is Op.PROXY_FENCE:
        return proxy_fence(instruction)
    before = {
        Op.ASYNC_WAIT: [(Op.ASYNC_COMMIT, "", "")] if "wait_all" in instruction.text else [],
        Op.CLUSTER_ARRIVE: [(Op.FENCE, "acq_rel", "gpu")] if order == "release" else [],
        Op.MBARRIER_ARRIVE: [(Op.FENCE, "acq_rel", "cta"), (Op.FENCE, "acq_rel", scope)]
        if scope != "cta"
        else [],
    }
    after = {
        Op.BULK_WAIT: [(Op.INVALIDATE, "", "")],
        Op.CLUSTER_WAIT: [
            (Op.INVALIDATE, "", ""),
            (Op.BARRIER, "", ""),
        ],  # the latter where there is no cluster
        Op.MBARRIER_TEST: invalidate,
    }
    return [*before.get(op, []), (op, "", ""), *after.get(op, [])]


def proxy_fence(instruction):
    """Of tensor maps one side, of asynchronous copies both."""
    if instruction.order == "release":
        return [(Op.FENCE, "acq_rel", scope_of(instruction))]
    if instruction.order == "acquire":
        return [(Op.PROXY_FENCE, "acquire", scope_of(instruction))]
    fences = {"": "gpu", "shared": "cta"}
    before = [(Op.FENCE, "acq_rel", fences[instruction.space])] if instruction.space in fences else []
    return [*before, (Op.PROXY_FENCE, "", "")]


def read(instruction):
    """The same of an instruction of machine code."""
    is_ordered = instruction.op in ACCESSES | {Op.FENCE} or (
        instruction.op is Op.PROXY_FENCE and instruction.order
    )
    if not is_ordered or (instruction.op in ACCESSES and instruction.space == "shared"):
        return instruction.op, "", ""
    scope = scope_of(instruction) if instruction.order not in {"weak", "nc"} else ""
    return instruction.op, instruction.order, scope


def opcode(instruction):
    """Base and modifiers, without the guard."""
    words = [word for word in instruction.text.split() if word[0] != "@"]
    base, *modifiers = words[0].split(".")
    return "REDG" if base == "RED" else base, set(modifiers), " ".join(words)


def is_listed(instruction, words):
    """Whether the page's words, such as "LDG.STRONG.GPU", are this instruction's."""
    base, modifiers, text = opcode(instruction)
    if " " in words:
        return text == words
    expected, *named = words.split(".")
    return base == expected and set(named) <= modifiers


def test_the_page_has_the_rows_that_the_tests_compile():
    found = rows()
    assert len(found) >= 95
    assert len({(row.ptx, row.since) for row in found}) == len(found)
    assert sum(row.is_lost for row in found) >= 8


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_each_row_of_the_page_is_what_the_compiler_makes_of_it(arch):
    wrong = {}
    for row, _, sass in table(arch):
        found = ordering(sass)
        if len(found) != len(row.machine_code) or not all(map(is_listed, found, row.machine_code)):
            wrong[row.ptx] = [instruction.text for instruction in found]
    assert wrong == {}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_lint_reads_in_machine_code_what_it_reads_in_ptx(arch):
    differing = {}
    compared = 0
    for row, ptx, sass in table(arch):
        if row.is_lost or row.is_only or not row.machine_code:
            continue
        expected = [one for instruction in ordering(ptx) for one in lowered(instruction)]
        found = [read(instruction) for instruction in ordering(sass)]
        compared += 1
        if found != expected:
            differing[row.ptx] = (expected, found)
    assert differing == {}
    assert compared >= (45 if arch == "sm_80" else 75)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_groups_that_may_be_pending_and_the_spaces_of_accesses_are_the_same_in_both(arch):
    counted = {Op.ASYNC_WAIT, Op.BULK_WAIT, Op.BULK_WAIT_READ, Op.BARRIER_ARRIVE, Op.PROXY_FENCE, *ACCESSES}
    for row, ptx, sass in table(arch):
        if not row.is_lost:
            facts = [
                [(i.count, i.space) for i in ordering(kernel) if i.op in counted] for kernel in (ptx, sass)
            ]
            assert facts[0] == facts[1] or "tensormap" in row.ptx, row.ptx


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_parameters_are_found_in_constant_bank_0(arch):
    for row, _, sass in table(arch):
        assert list(sass.parameters.values()) == [8, 8, 4]
        symbols = {symbol for instruction in sass.instructions for symbol in instruction.symbols}
        parameters = {symbol for symbol in symbols if symbol.startswith("param")}
        assert parameters <= {"param 0", "param 1", "param 2"}, row.ptx
        if row.ptx.startswith(("ld.", "st.", "atom.relaxed.gpu")) and "shared" not in row.ptx:
            assert "param 0" in parameters, row.ptx
