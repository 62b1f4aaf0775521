"""A warp's access to shared memory by lanes and banks, and who adds in a reduction, as plain values.

Example: at a stride of 2 words lanes 0 and 16 meet in bank 0: its column has two words, and the title says
two wavefronts. Of a reduction the chosen step is shown, and below it the active threads of all steps.
"""

from dataclasses import dataclass
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.model.kernel import WARP_SIZE
from wavesim.sm.banks import BANKS, wavefronts, words_by_bank
from wavesim.sm.reduction import LADDER, TreeStep, tree

STRIDE, COLUMN = "lanes a stride apart", "a column of a tile"
TREES = tuple(version.name for version in LADDER if version.adds is not None)
PATTERNS = (STRIDE, COLUMN, *(f"reduction {name}" for name in TREES))
TILE = 32


@dataclass(frozen=True)
class ShownAccess:
    """A pattern of `PATTERNS`; words between lanes; words added to a row; the reduction's step from 1 on."""

    pattern: str = STRIDE
    stride: int = 2
    padding: int = 0
    step: int = 1

    def __post_init__(self) -> None:
        if self.pattern not in PATTERNS:
            raise DescriptionError(f"pattern is {self.pattern!r}; choose one of {', '.join(PATTERNS)}")
        steps = len(self.steps)
        for name, most in (("stride", 64), ("padding", 32), ("step", steps or 64)):
            least = 1 if name == "step" else 0
            if not least <= getattr(self, name) <= most:
                raise DescriptionError(
                    f"{name} is {getattr(self, name)}; it must be from {least} to {most} here"
                )

    @property
    def steps(self) -> tuple[TreeStep, ...]:
        """Of the reduction that is shown; none for other patterns."""
        return tree(self.pattern.split()[-1]) if self.pattern.startswith("reduction") else ()

    @property
    def elements(self) -> tuple[int | None, ...]:
        """The word that each lane touches; of a reduction, the one that a lane of the first warp adds to."""
        if self.steps:
            added = self.steps[self.step - 1].added[:WARP_SIZE]
            return tuple(None if pair is None else pair[0] for pair in added)
        between = self.stride if self.pattern == STRIDE else TILE + self.padding
        return tuple(lane * between for lane in range(WARP_SIZE))


def scene_of_access(shown: ShownAccess) -> dict[str, Any]:
    """Each lane's word, each bank's words in the order of their wavefronts, and the tree's active threads."""
    elements = shown.elements
    (banks,) = words_by_bank(elements)
    return {
        "title": _title(elements),
        "subtitle": _facts(shown),
        "lanes": list(elements),
        "banks": [sorted(words) for words in banks],
        "bankCount": BANKS,
        "wavefronts": wavefronts(elements),
        "steps": [_step(step) for step in shown.steps],
        "chosen": shown.step - 1,
    }


def _title(elements: tuple[int | None, ...]) -> str:
    count = wavefronts(elements)
    (banks,) = words_by_bank(elements)
    used, active = sum(map(bool, banks)), sum(one is not None for one in elements)
    if count > 1:
        return f"{count} wavefronts: {used} of {BANKS} banks serve {_plural(active, 'lane')}"
    if active > 1 and used == 1:
        return "1 wavefront: all lanes read the same word"
    return f"1 wavefront: {_plural(active, 'lane')} in {_plural(used, 'bank')}"


def _facts(shown: ShownAccess) -> str:
    if shown.steps:
        step = shown.steps[shown.step - 1]
        return (
            f"{shown.pattern}, step {shown.step} of {len(shown.steps)}, distance {step.distance}: the words "
            "that the first warp adds to. Counted, not measured"
        )
    if shown.pattern == STRIDE:
        return f"lane i reads word {shown.stride} × i, 4 bytes. Counted, not measured"
    row = TILE + shown.padding
    return f"lane i reads element [i][0] of float tile[{TILE}][{row}], word {row} × i. Counted, not measured"


def _step(step: TreeStep) -> dict[str, Any]:
    """`active`: a 1 or 0 per thread; `words`: what its warps do."""
    warps = [warp for warp in step.warps if warp.active]
    lanes = max(warp.active for warp in warps)
    worst = max(warp.store for warp in warps)
    return {
        "distance": step.distance,
        "active": [int(pair is not None) for pair in step.added],
        "words": f"{_plural(len(warps), 'warp')}, {_plural(lanes, 'lane')}, {_plural(worst, 'wavefront')}",
    }


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
