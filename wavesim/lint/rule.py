"""A rule of the protocol between the kernels that wait and those that post.

Example: Rule("no-acquire", "wait", "a flag is polled, and neither the poll nor a fence after it acquires",
"poll with ld.acquire.gpu ...").
"""

from dataclasses import dataclass

from wavesim.lint.finding import Kind


@dataclass(frozen=True)
class Rule:
    """`about` is what it judges; `wrong` says what breaks it; `fix` mends it, in one sentence."""

    name: str
    about: Kind
    wrong: str
    fix: str
