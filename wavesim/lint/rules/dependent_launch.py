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
from wavesim.lint.sites import FlagWait

_ATTRIBUTE = "launched with cudaLaunchAttributeProgrammaticStreamSerialization"


def judge_dependents(codes: Sequence[tuple[Code, Sequence[FlagWait]]]) -> Iterator[Finding]:
    """Over the kernels of a file: triggers with nobody who waits for the grid."""
    for code, _ in codes:
        trigger = next(code.having(Op.GRID_TRIGGER), None)
        if trigger is None:
            continue
        dependents = [(other, waits) for other, waits in codes if other is not code]
        if any(True for _ in code.having(Op.GRID_WAIT)):
            dependents.append((code, ()))
        unwired = [other for other, waits in dependents if _reads_at_once(other, waits)]
        if not dependents:
            why = f"{line(code[trigger])} lets the next kernel start, and the next kernel is not in this file"
            yield judged(code, "one-sided-dependent-launch", trigger, why, verdict="unknown")
        elif unwired and len(unwired) == len(dependents):
            yield _one_sided(code, trigger, unwired[0])
        else:
            why = f"a kernel of this file waits for what {line(code[trigger])} lets start early"
            yield judged(code, "one-sided-dependent-launch", trigger, why, verdict="right")


def _reads_at_once(code: Code, waits: Sequence[FlagWait]) -> bool:
    """Whether it loads data and waits for nothing."""
    if waits or any(True for _ in code.having(Op.GRID_WAIT)):
        return False
    return any(is_data_load(code, i) for i in code.having(*LOADS))


def _one_sided(code: Code, trigger: int, dependent: Code) -> Finding:
    stores_before = any(
        is_data_store(code, i, ()) and code.flow.can_follow(i, trigger)
        for i in code.having(Op.STORE, Op.BULK_STORE, Op.REDUCTION)
    )
    rule = "trigger-as-release" if stores_before else "one-sided-dependent-launch"
    taken = " The trigger says nothing about stores, not even those before it." if stores_before else ""
    return judged(
        code,
        rule,
        trigger,
        f"{line(code[trigger])} lets dependents start, and {dependent.kernel.name} loads data with no "
        f"griddepcontrol.wait: wrong where it is {_ATTRIBUTE}.{taken}",
    )
