"""Programmatic dependent launch is wired at both sides, and its trigger is not taken for a release.

Example: a file whose producer calls griddepcontrol.launch_dependents and whose consumer has no
griddepcontrol.wait is wrong as soon as the consumer is launched with programmaticStreamSerialization.

Source: PTX ISA 9.0, section 9.7.13.13; CUDA programming guide, programmatic dependent launch.
"""

from collections.abc import Iterator, Sequence

from wavesim.lint.code import Code
from wavesim.lint.finding import Finding
from wavesim.lint.instruction import Op
from wavesim.lint.judging import judged, line
from wavesim.lint.rules.posting import is_data_store
from wavesim.lint.rules.waiting import LOADS, is_data_load
from wavesim.lint.sides import Side

_ATTRIBUTE = "launched with cudaLaunchAttributeProgrammaticStreamSerialization"


def judge_dependents(sides: Sequence[Side]) -> Iterator[Finding]:
    """Over the kernels of a file: triggers with nobody who waits for the grid."""
    for side in sides:
        code = side.code
        trigger = next(code.having(Op.GRID_TRIGGER), None)
        if trigger is None:
            continue
        # A chain of launches of one kernel depends on itself.
        dependents = [other for other in sides if other is not side or side.waits_for_grid]
        unwired = [other for other in dependents if _reads_at_once(other)]
        if not dependents:
            why = f"{line(code[trigger])} lets the next kernel start, and the next kernel is not in this file"
            yield judged(code, "one-sided-dependent-launch", trigger, why, verdict="unknown")
        elif len(unwired) == len(dependents):
            yield from _one_sided(code, trigger, unwired[0].code)
        elif said := [other for other in unwired if other is not side and _reads_produced(other)]:
            yield from _one_sided(code, trigger, said[0].code)
        else:
            why = f"a kernel of this file waits for what {line(code[trigger])} lets start early"
            yield judged(code, "one-sided-dependent-launch", trigger, why, verdict="right")


def _reads_at_once(side: Side) -> bool:
    """Whether it loads data and waits for nothing."""
    if side.waits or side.waits_for_grid:
        return False
    return any(is_data_load(side.code, i) for i in side.code.having(*LOADS))


def _reads_produced(side: Side) -> bool:
    """Whether the user says of something that it loads that another kernel writes it."""
    code = side.code
    return code.says_produced and any(code.is_("produced", i) for i in code.having(*LOADS))


def _one_sided(code: Code, trigger: int, dependent: Code) -> Iterator[Finding]:
    why = (
        f"{line(code[trigger])} lets dependents start, and {dependent.kernel.name} loads data with no "
        f"griddepcontrol.wait: wrong where it is {_ATTRIBUTE}"
    )
    yield judged(code, "one-sided-dependent-launch", trigger, why)
    stores = [
        i
        for i in code.having(Op.STORE, Op.BULK_STORE, Op.REDUCTION)
        if is_data_store(code, i, ()) and code.flow.can_follow(i, trigger)
    ]
    if stores:
        why = (
            f"{line(code[trigger])} says nothing of the stores before it, as {line(code[stores[0]])}, and "
            f"{dependent.kernel.name} has nothing else to go by"
        )
        yield judged(code, "trigger-as-release", trigger, why, (stores[0],))
