"""What every plan has in common: tile orders, a name, and semaphore policies where it has any.

Example: order_of("gemm2") is the plan's order unless `orders` names another; policy_of("gemm1", "gemm2")
likewise.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from wavesim.errors import DescriptionError
from wavesim.plan.order import Order
from wavesim.plan.policy import Policy


class Plan(ABC):
    """What every plan says: `order` is each stage's tile order unless `orders` names another for a stage."""

    order: Order
    orders: Mapping[str, Order]

    def __post_init__(self) -> None:
        for value in (self.order, *self.orders.values()):
            if not isinstance(value, Order):
                raise DescriptionError(
                    f"{type(self).__name__}: order is {value!r}; use RowMajor(), Grouped(8) or "
                    "parse_order('row')"
                )

    @property
    @abstractmethod
    def name(self) -> str:
        """Short word for tables and file names; `parse_plan` reads it back."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The plan in words."""

    @property
    def caveat(self) -> str:
        """What its predictions rest on that has not been measured here; "" for plans that have been."""
        return ""

    def order_of(self, stage: str) -> Order:
        """The tile order of a stage."""
        return self.orders.get(stage, self.order)


class SemaphorePlan(Plan):
    """Consumer tiles wait on semaphores for the producer tiles they read.

    `policy` holds for every dependency unless `policies[(producer, consumer)]` names another.
    """

    policy: Policy
    policies: Mapping[tuple[str, str], Policy]

    def __post_init__(self) -> None:
        super().__post_init__()
        for value in (self.policy, *self.policies.values()):
            if not isinstance(value, Policy):
                raise DescriptionError(
                    f"{type(self).__name__}: policy is {value!r}; use TileSync(), RowSync() or a CustomPolicy"
                )

    @property
    def policy_label(self) -> str:
        """The policy in words: "row semaphores"."""
        name = self.policy.name
        return f"{name} semaphores" if name in ("row", "tile") else f"policy {name}"

    def policy_of(self, producer: str, consumer: str) -> Policy:
        """The policy of one dependency."""
        return self.policies.get((producer, consumer), self.policy)
