"""A stage's kernel as it is compiled for a plan, and its machine code, with no GPU."""

import re
import subprocess
from pathlib import Path
from typing import Any

from wavesim.codegen.cuda import stage_header
from wavesim.model.device import load
from wavesim.model.pipeline import Pipeline
from wavesim.plan.parsing import parse_plan
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.driver.functions import GENERATED
from wavesim_gpu.kernels.backends import backend_of

PLAIN = Build()


def compiled(
    pipeline: Pipeline, name: str, words: str, family: str, arch: str = "sm_90a", build: Build = PLAIN
) -> Any:
    """What the backend of `family` for this stage launches under the plan of these words."""
    order = words.partition(" ")[2] or "row"
    plan, stage = parse_plan(words.partition(" ")[0], order), pipeline.stage(name)
    backend = backend_of(stage, family)
    expression = backend.launch(stage.work, plan, load("h200")).expression
    headers = {GENERATED: stage_header(pipeline, plan, name).text}
    return compile_cubin(backend.source, [expression], arch, build, headers)


def instructions(cubin: Any, nvdisasm: str, folder: Path) -> list[str]:
    """One a line."""
    path = folder / "stage.cubin"
    path.write_bytes(cubin.data)
    listing = subprocess.run([nvdisasm, path], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if re.match(r"\s*/\*[0-9a-f]{4,}\*/", line)]
