"""Where a notebook's measurements come from: this machine's GPU, or the recordings that ship with wavesim.

Picture: `USE_GPU = "auto"` on a laptop prints "recordings: this machine has no GPU runner"; on a machine with
a GPU it prints "live"; `"never"` always takes the recordings, and `"require"` fails where there is no GPU.
"""

from dataclasses import dataclass

from wavesim.comparison import Runner, UseGpu, find_runner


@dataclass(frozen=True)
class Measuring:
    """The runner to hand to `compare`, or None; printed, it says what the figures will show."""

    runner: Runner | None
    words: str

    def __repr__(self) -> str:
        return f"measurements: {self.words}"


def measuring(use_gpu: UseGpu = "auto") -> Measuring:
    """Resolves USE_GPU. Raises `DeviceError` for "require" without a GPU; `DescriptionError`."""
    runner = find_runner(use_gpu)
    if runner is not None:
        return Measuring(runner, "live, on this machine's GPU")
    reason = 'USE_GPU is "never"' if use_gpu == "never" else "no GPU runner here"
    return Measuring(
        None, f"recordings that ship with wavesim ({reason}); every table and figure names its own"
    )
