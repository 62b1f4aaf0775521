"""Names that a description may have and C++ may not, and what a compiler makes of a generated header.

Example: `tokens("int a; // b\\\nint c;")` are int, a and ; only: the backslash carries the comment on.
"""

import re

from wavesim.codegen.names import Names
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import CustomOrder
from wavesim.plan.plan import Plan, SemaphoreSync
from wavesim.plan.policy import CustomPolicy
from wavesim.plan.semaphores import edges_of

INJECTED = 'extern "C" __global__ void injected() {}'
MEMBERS = ("from_", "to_", "grid_of_")  # of a stage
_WORDS = """
int class and co_await char8_t restrict asm operator requires min max assert NULL EOF linux unix near I
M_PI TILE WAVESIM_FUNCTION WAVESIM_WAIT_LIMIT_NS Tile Box Fact Grid Run run_with columns rows slices
started counters gave_up first count x y z first_semaphore semaphore value wait wait_tile wait_for spin
begin post blocks need_0 array_0 smaller time_ns check_run prepare_run missing_tile awaited Post position
tile run grid_of_a need need_ array threadIdx blockIdx warpSize dim3 atomicAdd atomicCAS cudaMemsetAsync
cudaError_t size_t cuda std __x _X x__y _ __ 3d 0 named named_int named_int_2 a_to_b b_to_c a_to_b_to_c
from_a to_b named_a_to_b prepare_kernel prepared_kernels
"""
_ENDS = ("\n", "\r", "\r\n", "\v", "\f", "\x85", "\u2028", "\u2029", "\0\n")
HOSTILE = [
    *_WORDS.split(),
    *("", " ", "a-b", "a_b", "a.b", "a b", "a  b", "层", "層一", "é", "\ud800", "\0", "\x1b[31m", "\u202e"),
    *(f"a{end}{INJECTED}{end}" for end in _ENDS),
    *(f"*/ {INJECTED} /*", f"a\\\n{INJECTED}", f"a??/\n{INJECTED}", f'";{INJECTED}//', "a \\", "a??/", "\\ "),
    *(f"    {INJECTED}", f"a\n    {INJECTED}", "// \\", "%s {0} {x}", "#define columns 0", 'R"(', "'"),
    *("a" * 10_000, "層" * 10_000, "a b" * 3_000),
]


def chain(names: tuple[str, str, str], name: str) -> Pipeline:
    """The second stage reads the first, the third both."""
    grid = Grid(3, 2)
    first, second, third = (Stage(one, Kernel(one, grid, Block(64))) for one in names)
    needs = [Dependency(second[x, y], [first[:, y]]), Dependency(third[x, y], [second[x, y], first[x, :]])]
    return Pipeline(name, [first, second, third], needs)


def plan_named(policy: str, order: str) -> Plan:
    """One semaphore in all, under a policy and an order of these names that are tables."""
    shared = CustomPolicy(policy, lambda tx, ty, grid: 0, lambda tx, ty, grid: grid.tiles)
    return SemaphoreSync(shared, order=CustomOrder(order, lambda grid: list(grid)[::-1]))


def tokens(text: str) -> list[str]:
    """What is left for the compiler: trigraphs replaced, lines joined as GCC does, comments out."""
    text = re.sub(r"\\[ \t\v\f]*(\r\n|[\n\r])", "", text.replace("??/", "\\"))
    text = re.sub(
        r'("(?:\\.|[^"\\\n])*")|//[^\n\r]*|/\*.*?\*/', lambda found: found[1] or " ", text, flags=re.DOTALL
    )
    return re.findall(r'"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*|\d[\w.]*|\S', text)


def renamed(found: list[str], pipeline: Pipeline, neutral: Pipeline) -> list[str]:
    """The tokens of one pipeline's header with the other one's names in them."""
    own, other = Names.of(pipeline), Names.of(neutral)
    pairs = zip(pipeline.stages, neutral.stages, strict=True)
    words = {own.stage(a.name): other.stage(b.name) for a, b in pairs}
    words |= {
        f"{before}{a}": f"{before}{b}" for a, b in words.items() for before in ("from_", "to_", "grid_of_")
    }
    edges = zip(edges_of(pipeline), edges_of(neutral), strict=True)
    words |= {own.edge(a): other.edge(b) for a, b in edges}
    name = re.compile(r'[A-Za-z_]\w*$|[A-Za-z_]\w*(?="$)')  # a string has it as its last word
    return [name.sub(lambda word: words.get(word[0], word[0]), token) for token in found]
