"""The dependency explorer: whom a tile waits for, who waits for it, through which semaphore, and when.

Example: the pointer rests on tile (1, 2) of the second GEMM; the two tiles of row 2 of the first stand in
full blue with a green line around them, as they post one semaphore, and arrows lead from them.
"""

import traitlets

from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan, SemaphoreSync
from wavesim.safe_io.annotated import typed
from wavesim.view.timeline_scene import scene_of_dependencies
from wavesim.widgets.drawn import DrawnWidget
from wavesim.widgets.scripts import script


class DependencyExplorer(DrawnWidget):
    """Explores a pipeline's dependencies under a semaphore plan, row semaphores unless given.

    `chosen` is (stage index, x, y); at first a tile in the middle of the first consumer's first column.
    Raises `DescriptionError` for a pipeline without dependencies, and for a stage or tile it lacks.
    """

    _esm = script("pen.js", "picture.js", "blocks.js", "dependency_picture.js", "dependency_explorer.js")
    chosen = traitlets.List(traitlets.Int()).tag(sync=True)
    page_traits = ("chosen",)

    @typed
    def __init__(
        self,
        pipeline: Pipeline,
        plan: Plan | None = None,
        *,
        stage: str | None = None,
        tile: tuple[int, int] | None = None,
    ) -> None:
        scene = scene_of_dependencies(pipeline, SemaphoreSync() if plan is None else plan)
        super().__init__(scene=scene, chosen=_chosen(pipeline, stage, tile))

    def show(self, pipeline: Pipeline, plan: Plan | None = None) -> None:
        """Explores another pipeline or plan in place."""
        scene = scene_of_dependencies(pipeline, SemaphoreSync() if plan is None else plan)
        with self.hold_sync():
            self.chosen = _chosen(pipeline, None, None)
            self.scene = scene


def _chosen(pipeline: Pipeline, name: str | None, tile: tuple[int, int] | None) -> list[int]:
    stage = pipeline.dependencies[0].consumer.stage if name is None else pipeline.stage(name)
    x, y = (0, stage.grid.y // 2) if tile is None else tile
    if not (0 <= x < stage.grid.x and 0 <= y < stage.grid.y):
        raise DescriptionError(
            f"tile is {(x, y)}; {stage.name} has tiles (0, 0) to {(stage.grid.x - 1, stage.grid.y - 1)}"
        )
    return [pipeline.stages.index(stage), x, y]
