"""Synchronisation: what a tile waits for. The whole kernel before, or semaphores of the tiles that it reads.

Example: under `Semaphores(RowSync())` each block of the second GEMM waits for one tile row of the first;
`policies` may name another policy for one dependency.
"""

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from wavesim.errors import DescriptionError
from wavesim.plan.parts import PlanPart, Traits
from wavesim.plan.policy import Policy, RowSync


class Sync(PlanPart, ABC):
    """What a tile waits for."""

    has_semaphores: ClassVar[bool] = False

    @property
    def edge_policies(self) -> Mapping[tuple[str, str], Policy]:
        """Policies of single dependencies, by (producer, consumer)."""
        return {}

    def policy_of(self, producer: str, consumer: str) -> Policy:
        """The policy of one dependency. Raises `DescriptionError` where there are no semaphores."""
        raise DescriptionError(f"{self.word}: {consumer} waits for the whole of {producer}, without a policy")

    def with_policies(self, policies: Mapping[tuple[str, str], Policy]) -> "Sync":
        """The same with other policies for single dependencies. Raises `DescriptionError` as `policy_of`."""
        raise DescriptionError(
            f"{self.word}: every tile waits for whole kernels, so no dependency has a policy. Use "
            "Semaphores(RowSync())"
        )


@dataclass(frozen=True)
class KernelBoundary(Sync):
    """A kernel's tiles wait for the whole of the kernel before: what a stream promises."""

    @property
    def word(self) -> str:
        return "boundary"

    @property
    def text(self) -> str:
        return "stream sync"

    def refusal(self, traits: Traits) -> str:
        if traits.is_fused:
            return "within one kernel there is no boundary to wait at. Use Semaphores(RowSync())"
        return ""


@dataclass(frozen=True, repr=False)
class Semaphores(Sync):
    """Consumer tiles wait on semaphores for the producer tiles they read (cuSync).

    `policy` holds for every dependency unless `policies[(producer, consumer)]` names another.
    """

    policy: Policy = RowSync()
    policies: Mapping[tuple[str, str], Policy] = field(default_factory=dict)

    has_semaphores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.policies, Mapping) or not all(map(_is_edge, self.policies)):
            raise DescriptionError(
                f"Semaphores: policies is {self.policies!r}; give a mapping from (producer, consumer) to "
                "policies, such as {('gemm1', 'gemm2'): TileSync()}"
            )
        for value in (self.policy, *self.policies.values()):
            if not isinstance(value, Policy):
                raise DescriptionError(
                    f"Semaphores: policy is {value!r}; use TileSync(), RowSync() or a CustomPolicy"
                )

    def __hash__(self) -> int:
        return hash((self.policy, frozenset(self.policies)))

    @property
    def word(self) -> str:
        return self.policy.name

    @property
    def text(self) -> str:
        name = self.policy.name
        return f"{name} semaphores" if name in ("row", "tile", "grid") else f"policy {name}"

    @property
    def edge_policies(self) -> Mapping[tuple[str, str], Policy]:
        return self.policies

    def policy_of(self, producer: str, consumer: str) -> Policy:
        return self.policies.get((producer, consumer), self.policy)

    def with_policies(self, policies: Mapping[tuple[str, str], Policy]) -> "Semaphores":
        return replace(self, policies={**self.policies, **policies})


def _is_edge(key: object) -> bool:
    return isinstance(key, tuple) and [type(part) for part in key] == [str, str]
