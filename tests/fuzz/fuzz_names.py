"""Names of stages, pipeline and policy in generated CUDA: the code stays the same but for its words."""

import json
import random
import re
from pathlib import Path
from typing import Any

from harness import Target
from judging import require, require_plain
from mutations import HOSTILE_TEXTS, with_values_changed

from wavesim.codegen.cuda import generate
from wavesim.errors import DescriptionError, WavesimError
from wavesim.model import device as devices
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import CustomPolicy, Policy, RowSync
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows

HARMLESS = {"stages": ["first_stage", "second_stage"], "pipeline": "some_pipeline", "policy": "some policy"}
WORDS = (
    *("int", "Tile", "columns", "started", "threadIdx", "min", "value", "first", "atomicAdd", "class", "__x"),
    *(
        "a\n} __global__ void injected() {",
        "a\\\nb",
        "*/ x /*",
        "??/\nx",
        "up-1",
        "up.1",
        "1st",
        "é",
        "\U0001d431",
        "a b",
    ),
    *("a_to_b", "b_to_c", "from_a", "need_1", "grid_of_a", "std", "_A", "a__b", "main", 'R"(x)"', '"', "'"),
)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def made(chance: random.Random, data: bytes) -> bytes:
    """Other names, in any place."""
    try:
        value = json.loads(data)
    except ValueError:
        value = HARMLESS
    return json.dumps(with_values_changed(chance, value, WORDS + HOSTILE_TEXTS)).encode()


def call(path: Path) -> bool:
    """The header under these names is the harmless one but for its words. Returns whether there is one."""
    try:
        document = json.loads(path.read_bytes())
    except ValueError:
        return False
    names = {**HARMLESS, **document} if isinstance(document, dict) else HARMLESS
    for has_own_policy in (False, True):
        harmless = _header(HARMLESS, has_own_policy)
        try:
            header = _header(names, has_own_policy)
        except WavesimError:  # its text is made one line where it is printed
            return False
        require_plain(header)
        require(_shape(header) == _shape(harmless), "a name is more than a word of the code")
        require("\\\n" not in header, "a comment goes on in the next line")
    return True


def _header(names: dict[str, Any], has_own_policy: bool) -> str:
    stages = names["stages"]
    if not isinstance(stages, list) or len(stages) != 2:
        raise DescriptionError("two stages are needed")
    first, second = (Stage(name, Gemm(name, 256, 256, 256, 64, 64, 32)) for name in stages)
    pipeline = Pipeline(names["pipeline"], [first, second], [gemm_rows(first, second)])
    policy: Policy = RowSync()
    if has_own_policy:
        policy = CustomPolicy(names["policy"], lambda x, y, grid: y, lambda x, y, grid: grid.x)
    return generate(pipeline, SemaphoreSync(policy), devices.default_device())


def _shape(header: str) -> list[str]:
    """What is left of a header without comments and with one word for every word."""
    return WORD.sub("w", COMMENT.sub("", header)).split()


TARGET = Target(made, call)
