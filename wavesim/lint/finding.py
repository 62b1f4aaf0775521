"""A rule, what lint found by it, and what the user knows that the code cannot say.

Example: Finding("consumer", "wait", "no-acquire", "wrong", "the flag is polled relaxed and no fence
follows ...", "poll with ld.acquire.gpu, or put __threadfence() after the loop", ...).
"""

from dataclasses import dataclass
from typing import Literal

from wavesim.lint.instruction import Instruction

# "warn": no fault, but likely not meant.
Verdict = Literal["wrong", "unknown", "warn", "right"]
# What is judged. A kernel in which nothing was found gets one finding of kind "kernel", "unknown".
Kind = Literal["wait", "post", "load", "store", "dependent launch", "barrier", "spin", "kernel"]


@dataclass(frozen=True)
class Finding:
    """`rule` is the name of a rule of `docs/lint-rules.md`; `fix` is empty unless the verdict is "wrong".

    `instruction` is where it is; `others` are the instructions that the reason names.
    """

    kernel: str
    kind: Kind
    rule: str
    verdict: Verdict
    why: str
    fix: str = ""
    instruction: Instruction | None = None
    others: tuple[Instruction, ...] = ()
    where: str = ""  # the Listing's


@dataclass(frozen=True)
class Known:
    """Each holds parameters by number from 0 ("0"; "kernel:0" of one kernel), or names of symbols.

    `produced` is written by another kernel meanwhile, `constant` by nobody, `remote` lies on another GPU or
    is mapped from the host, `flags` are semaphores. `launched` are names of kernels, or "*" for all, that are
    launched with programmatic serialisation: they may start before the kernel before them has ended.
    """

    produced: frozenset[str] = frozenset()
    constant: frozenset[str] = frozenset()
    remote: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    launched: frozenset[str] = frozenset()

    @staticmethod
    def covers(names: frozenset[str], kernel: str, root: str) -> bool:
        """Whether `root` ("param 0", "param 0+8", a symbol) of `kernel` is one of `names`."""
        plain = root.removeprefix("param ")
        whole = plain.partition("+")[0]
        return not names.isdisjoint({plain, whole, f"{kernel}:{plain}", f"{kernel}:{whole}"})


@dataclass(frozen=True)
class Rule:
    """`about` is what it judges; `wrong` says what breaks it; `fix` mends it, in one sentence."""

    name: str
    about: Kind
    wrong: str
    fix: str
