"""Notebook 12: what the best pair is worth to the whole, and a pair of one's own in TOML."""

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from wavesim.errors import WavesimError
from wavesim.model.device import default_device
from wavesim.model.kernel import Grid
from wavesim.model.pipeline import Pipeline
from wavesim.predict.recommendation import verdict_on
from wavesim.profile.advice import advise
from wavesim.profile.profile_file import EXAMPLE, load_profile
from wavesim.safe_io.writing import write_text
from wavesim.teaching.exercises import WrongAnswer, require
from wavesim.work.description.reader import Description, load_description

GRIDS, TIMES_US = (Grid(24, 8), Grid(48, 8)), (310, 235)
BLOCK = {"threads": 256, "registers": 232, "shared_bytes": 98_304}


@cache
def _shares_ns() -> tuple[float, float]:
    """What the example's first pair is likely to save, and the time of the whole."""
    profile = load_profile(EXAMPLE)
    return advise(profile).pair(1).saving.likely_ns, profile.span_ns


def _share(percent: float) -> dict[str, Any]:
    """Percent of the profiled time that tile sync saves if the first pair saves what is likely."""
    saving, span = (ns / 1e6 for ns in _shares_ns())
    return {"percent": 100 * saving / span, "saving": saving, "span": span, "would": percent * span / 100}


def _grade_description(answer: Any) -> str:
    """A TOML text: 192 blocks in 8 rows, then 384, 256 threads, 232 registers, 96 KiB, on an H200."""
    require(isinstance(answer, str), "give the file's text, in triple quotes.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pair.toml"
        write_text(path, answer)
        try:
            found = load_description(path)
        except WavesimError as error:
            raise WrongAnswer(str(error).replace(f"{folder}/", "")) from None
    _require_kernels(found)
    _require_rows(found.pipeline)
    verdict = verdict_on(found.pipeline, found.device, found.kernel_ns)
    interval = f"{verdict.low:.1f} to {verdict.high:.1f}"
    return f"The verdict: {verdict.best}, {verdict.improvement_points:+.1f} points ({interval}), predicted."


def _require_kernels(found: Description) -> None:
    stages = found.pipeline.stages
    blocks = [stage.grid.size for stage in stages]
    require(
        blocks == [grid.size for grid in GRIDS],
        f"the kernels have {blocks} blocks; 192 and 384 are asked for, in 8 rows each.",
    )
    require(found.device == default_device(), f'the device is {found.device.name}; an H200 is "h200".')
    for stage, grid, time_us in zip(stages, GRIDS, TIMES_US, strict=True):
        said = {"grid": [stage.grid.x, stage.grid.y], "threads": stage.kernel.block.threads}
        said |= {"registers": stage.kernel.block.registers, "shared_bytes": stage.kernel.block.shared_bytes}
        said["kernel_us"] = found.kernel_ns.get(stage.name, 0) / 1000
        for name, wanted in ({"grid": [grid.x, grid.y]} | BLOCK | {"kernel_us": time_us}).items():
            require(said[name] == wanted, f"{stage.name}: {name} is {said[name]}; the task says {wanted}.")


def _require_rows(pipeline: Pipeline) -> None:
    require(bool(pipeline.dependencies), "no dependency: without one nothing has to wait.")
    unread = pipeline.unread_tiles()
    require(not unread, f"tiles {[tiles[:3] for tiles in unread.values()]} are read by nobody.")
    columns = range(GRIDS[0].x)
    for x, y in GRIDS[1]:
        read = {tile for needs in pipeline.dependencies for _, tile in needs.producer_tiles(x, y)}
        require(
            read == {(column, y) for column in columns},
            f"tile ({x}, {y}) reads {len(read)} tiles, {min(read)} first; a GEMM reads the 24 of its row.",
        )


GRADERS = {"12.1": _share, "12.2": _grade_description}
