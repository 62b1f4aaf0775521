"""What lint says of one wait, post or load: wrong because, right because, or unknown because.

Example: Finding("consumer", "wait", "no-acquire", "wrong", "the flag is polled relaxed and no fence
follows ...", "poll with ld.acquire.gpu, or put __threadfence() after the loop", ...).
"""

from dataclasses import dataclass
from typing import Literal

from wavesim.lint.instruction import Instruction

Verdict = Literal["wrong", "right", "unknown"]
# What is judged. A kernel in which nothing was found gets one finding of kind "kernel", "unknown".
Kind = Literal["wait", "post", "load", "store", "dependent launch", "barrier", "spin", "kernel"]


@dataclass(frozen=True)
class Finding:
    """`rule` is the name of a rule of `docs/lint.md`; `fix` is empty unless the verdict is "wrong".

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
