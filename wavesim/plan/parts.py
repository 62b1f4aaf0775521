"""What the parts of a plan have in common: a word that is read back, a text for people, what they rule out.

Example: the word of `StreamPerStage(wait_kernel=False)` is "streams:no-wait-kernel"; its text is
"no wait-kernel".
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from wavesim.errors import DescriptionError
from wavesim.model.reprs import call_text


@dataclass(frozen=True)
class Traits:
    """What one part of a plan must know of the others, to say whether they fit together."""

    is_fused: bool
    is_multi_stream: bool
    has_semaphores: bool


def require_flag(part: str, **flags: object) -> None:
    """Raises `DescriptionError` for the first that is neither True nor False: "no" would count as True."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise DescriptionError(f"{part}: {name} is {value!r}; it must be True or False")


class PlanPart(ABC):
    """One answer of a plan: a schedule, a launch or a way to synchronise. A frozen value."""

    def __repr__(self) -> str:
        return call_text(self)

    @property
    @abstractmethod
    def word(self) -> str:
        """What is stored and typed, settings after colons; `wavesim.plan.parsing` reads it back."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The part in words, lower case; "" for what goes without saying."""

    @property
    def caveat(self) -> str:
        """What its predictions rest on that has not been measured here; "" where they have been."""
        return ""

    @property
    def why_safe(self) -> str:
        """Why waiting blocks cannot keep out those they wait for, on any device; "" where they might."""
        return ""

    def refusal(self, traits: Traits) -> str:
        """Why this part cannot stand in a plan with the other parts, and the fix; "" where it can."""
        return ""
