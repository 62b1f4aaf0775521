"""Blocks of a cluster access each other's shared memory: they meet before, hand over in order, and stay.

Example: `st.shared::cluster` into a neighbour's memory, then `mbarrier.arrive.relaxed.cluster` at its
mbarrier: the neighbour may see the arrival first. In machine code a release is a MEMBAR before the arrival,
an acquire a CCTL.IVALL behind the wait, and an address of another block is made by mapa's PRMT.

Source: PTX ISA 9.0, sections 9.7.13.4 (barrier.cluster), 9.7.13.15 (mbarrier).
"""

import re
from collections.abc import Iterable, Iterator

from wavesim.lint.code import Code
from wavesim.lint.finding import Finding
from wavesim.lint.instruction import ACCESSES, RELEASES, STRONG, Instruction, Op, width
from wavesim.lint.judging import is_reached, judged, line
from wavesim.lint.sites import comes_first

_MEETS = frozenset({Op.CLUSTER_WAIT, Op.MBARRIER_TEST})
_MAPPED = re.compile(r"\bmapa\b|\b(U?PRMT)\S* .*0x654\b")
_REMOTE_ARRIVE = re.compile(r"\bSYNCS\.ARRIVE\S*\.RED\b")
_SENT = re.compile(r"\b(st|red)\.async\b|\b(STAS|REDAS)\b")  # counted by the mbarrier that it names
_PLACE = re.compile(r"shared::\w+|\[.*")


def judge_clusters(code: Code) -> Iterator[Finding]:
    """The first breach of each rule, or that the accesses are in order."""
    remote = _remote(code)
    rules = [_unmet, _relaxed, _arrivals, _exits]
    is_polled = any(_is_flag(code, i, remote) for i in code.having(*ACCESSES))
    if not is_polled:  # flags in shared memory are not followed
        rules.append(_unawaited)
    findings = [next(rule(code, remote), None) for rule in rules]
    yield from (finding for finding in findings if finding is not None)
    if remote and not any(findings) and not is_polled:
        why = f"{line(code[remote[0]])} and other accesses to another block's shared memory come in order,"
        yield judged(code, "cluster-unordered", remote[0], f"{why} after both have met", verdict="right")


def _is_flag(code: Code, i: int, remote: list[int]) -> bool:
    """Whether an access is to a flag in shared memory: strong, or looked at until a loop ends."""
    if not code[i].space.startswith("shared") and i not in remote:
        return False
    decided = set(code.deciders(i)) if code[i].op is Op.LOAD else set()
    loops = (loop for loop in code.flow.loops if i in loop.body)
    return code[i].order in STRONG or any(not decided.isdisjoint(loop.exits) for loop in loops)


def _unawaited(code: Code, remote: list[int]) -> Iterator[Finding]:
    """Stores into a neighbour, where all read their own memory and nothing awaits the neighbour's."""
    for store in remote:
        if code[store].op is Op.LOAD:
            continue
        reads = [
            i for i in code.having(Op.LOAD) if code[i].space == "shared" and code.flow.can_follow(store, i)
        ]
        if reads and all(is_reached(code, store, i, _MEETS) for i in reads):
            why = (
                f"{line(code[reads[0]])} reads shared memory into which the neighbour's {line(code[store])} "
            )
            yield judged(code, "cluster-unordered", reads[0], f"{why}stores, and nothing awaits it", (store,))


def _remote(code: Code) -> list[int]:
    """Accesses by threads, not by the asynchronous proxy, to another block's shared memory."""
    places = sorted(code.having(Op.LOAD, Op.STORE, Op.ATOMIC, Op.REDUCTION))
    return [i for i in places if _is_remote(code, i) and not _SENT.search(code[i].text)]


def _is_remote(code: Code, i: int) -> bool:
    address = code[i].address
    if code[i].space == "shared::cluster":
        return True
    made_by = code.sources(address.base, i) if code[i].space == "generic" and address is not None else ()
    return any(_MAPPED.search(code[place].text) for place in made_by)


def _unmet(code: Code, remote: Iterable[int]) -> Iterator[Finding]:
    for i in remote:
        if is_reached(code, -1, i, _MEETS):
            why = f"{line(code[i])} accesses another block's shared memory, and the cluster has not met"
            yield judged(code, "cluster-unordered", i, why)


def _relaxed(code: Code, remote: list[int]) -> Iterator[Finding]:
    """Arrivals at the cluster's barrier that release nothing of what was written before."""
    own = [i for i in code.having(Op.STORE) if code[i].space == "shared"]
    reads = [i for i in code.having(Op.LOAD) if code[i].space == "shared"]
    handed = [(own, [i for i in remote if code[i].op is Op.LOAD])]
    handed.append(([i for i in remote if code[i].op is not Op.LOAD], reads))
    for arrive in code.having(Op.CLUSTER_ARRIVE):
        if code[arrive].order in RELEASES:
            continue
        for writes, others in handed:
            later = any(code.flow.can_follow(arrive, i) for i in others)
            unreleased = [i for i in writes if later and is_reached(code, i, arrive, frozenset({Op.FENCE}))]
            if unreleased:
                why = (
                    f"{line(code[arrive])} arrives relaxed, and nothing releases {line(code[unreleased[0]])}"
                )
                yield judged(code, "cluster-unordered", arrive, why, (unreleased[0],))


def _arrivals(code: Code, remote: list[int]) -> Iterator[Finding]:
    """Arrivals at another block's mbarrier, and waits for them, that order too little."""
    arrivals = [i for i in code.having(Op.MBARRIER_ARRIVE, Op.MBARRIER_EXPECT) if _is_other_blocks(code, i)]
    writes = [i for i in remote if code[i].op is not Op.LOAD]
    for i in arrivals:
        yield from _too_weak(code, i, [write for write in writes if i in code.reach(write)], "no-release")
    reads = [i for i in code.having(Op.LOAD) if code[i].space.startswith("shared") or i in remote]
    for test in code.having(Op.MBARRIER_TEST) if arrivals else ():
        later = [i for i in reads if i in code.reach(test)] if remote else []
        yield from _too_weak(code, test, later, "no-acquire")


def _is_other_blocks(code: Code, i: int) -> bool:
    return code[i].space == "shared::cluster" or bool(_REMOTE_ARRIVE.search(code[i].text))


def _too_weak(code: Code, i: int, handed: list[int], rule: str) -> Iterator[Finding]:
    releases = rule == "no-release"
    verb = "releases" if releases else "acquires"
    if code.language == "sass":
        stops = _is_cluster_fence if releases else _is_invalidation
        ways = ((at, i) if releases else (i, at) for at in handed)
        if any(code.flow.path_without(*way, stops) is not None for way in ways):
            why = f"nothing at {line(code[i])} {verb} for the cluster what {line(code[handed[0]])} hands over"
            yield judged(code, rule, i, why, (handed[0],))
        return
    text = _PLACE.sub("", code[i].text)
    is_narrow = ".cta" in text or (bool(handed) and ".cluster" not in text)
    if is_narrow and not _is_fenced(code, i, handed):
        why = f"{line(code[i])} is of block scope, and the mbarrier of another block of the cluster"
        yield judged(code, "narrow-scope", i, why)
    elif code[i].order == "relaxed" and not _is_fenced(code, i, handed):
        why = f"{line(code[i])} is relaxed, and no fence {verb} what the blocks hand over by it"
        yield judged(code, rule, i, why)


def _is_fenced(code: Code, i: int, handed: list[int]) -> bool:
    """Whether a fence of the cluster's scope stands between it and all that is handed over."""
    is_test = code[i].op is Op.MBARRIER_TEST
    ways = ((i, at) if is_test else (at, i) for at in handed)
    if comes_first(code, i, frozenset({Op.FENCE})):
        return True
    return bool(handed) and all(code.flow.path_without(*way, _is_cluster_fence) is None for way in ways)


def _is_cluster_fence(instruction: Instruction) -> bool:
    return instruction.op is Op.FENCE and width(instruction.scope) >= width("cluster")


def _is_invalidation(instruction: Instruction) -> bool:
    return instruction.op is Op.INVALIDATE


def _exits(code: Code, remote: Iterable[int]) -> Iterator[Finding]:
    """Reads of another block's memory behind which the cluster does not meet before blocks may end."""
    if not any(True for _ in code.having(Op.CLUSTER_WAIT)):
        return
    stays = frozenset({Op.CLUSTER_WAIT, Op.CLUSTER_ARRIVE})
    for i in remote:
        is_read = code[i].op is Op.LOAD or code[i].order in STRONG
        if is_read and is_reached(code, i, len(code.instructions), stays):
            why = f"the block that {line(code[i])} reads from may have ended: the cluster does not meet again"
            yield judged(code, "cluster-exit", i, why)
