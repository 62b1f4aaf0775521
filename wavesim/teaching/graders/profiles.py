"""Exercises of notebook 12: what the best pair is worth to the whole, and a pair of one's own in TOML."""

import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from wavesim.advise.advice import Advice, advise
from wavesim.advise.profile_file import EXAMPLE, load_profile
from wavesim.errors import WavesimError
from wavesim.guard.writing import write_text
from wavesim.model.description import load_description
from wavesim.predict.verdict import verdict_on
from wavesim.teaching.exercises import Exercise, WrongAnswer, require


@lru_cache(maxsize=1)
def _advice() -> Advice:
    return advise(load_profile(EXAMPLE))


def grade_share(answer: Any) -> str:
    """Percent of the profiled time that tile sync saves if the first pair saves what is likely."""
    require(isinstance(answer, int | float), f"{answer!r} is not a percentage.")
    advice = _advice()
    saving, span = advice.pair(1).saving.likely_ns, load_profile(EXAMPLE).span_ns
    share = 100 * saving / span
    require(
        abs(answer - share) < 0.02,
        f"{answer} % of {span / 1e6:.1f} ms would be {answer * span / 1e8:.3f} ms. The "
        "pair is likely to save `best.saving.likely_ns` in all, over all the times it runs.",
    )
    return f"{saving / 1e6:.2f} of {span / 1e6:.1f} ms. First of a ranking, and still not worth it."


def grade_description(answer: Any) -> str:
    """A TOML text: 192 blocks in 8 rows, then 384, 256 threads, 232 registers, 96 KiB, on an H200."""
    require(isinstance(answer, str), "give the file's text, in triple quotes.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pair.toml"
        write_text(path, answer)
        try:
            found = load_description(path)
        except WavesimError as error:
            raise WrongAnswer(str(error).replace(f"{folder}/", "")) from None
    blocks = [stage.grid.size for stage in found.pipeline.stages]
    require(
        blocks == [192, 384], f"the kernels have {blocks} blocks; 192 and 384 are asked for, in 8 rows each."
    )
    require(bool(found.pipeline.dependencies), "no dependency: without one nothing has to wait.")
    unread = found.pipeline.unread_tiles()
    require(not unread, f"tiles {[tiles[:3] for tiles in unread.values()]} are read by nobody.")
    reads = found.pipeline.dependencies[0].producer_tiles(0, 0)
    require(len(reads) == 24, f"tile (0, 0) reads {len(reads)} tiles; a GEMM reads the 24 of its row.")
    verdict = verdict_on(found.pipeline, found.device, found.kernel_ns)
    interval = f"{verdict.low:.1f} to {verdict.high:.1f}"
    return f"The verdict: {verdict.best}, {verdict.improvement_points:+.1f} points ({interval}), predicted."


EXERCISES = (
    Exercise("12.1", "Percent of the profiled time that the first pair is worth", grade_share),
    Exercise("12.2", "A pair of kernels as TOML", grade_description),
)
