"""What a GPU benchmark's results say, in sentences: how measured, what was found, what was left out.

Example: "GPT-3 MLP, speed of the tuned plan, geometric mean (worst to best), over cuBLASLt 0.986 (0.98 to
0.99); PyTorch 1.008 (1.00 to 1.01); ...": every number comes from the file.
"""

from statistics import median

from wavesim.bench.gpu_results import GpuResults, TimedCandidate
from wavesim.bench.speedups import PAIRS, PROMPT, label, pairs_of, speeds, summary

RIVALS = ("cublaslt", "torch", "stream", "pdl", "stream-k", "stream-k pdl", "persistent")


def measured_how(results: GpuResults) -> str:
    """One paragraph: on what, with which versions, at which clocks and power."""
    cases = [case for workload in PAIRS for case in results.of(workload)]
    versions = ", ".join(f"{name} {text}" for name, text in results.versions.items() if text)
    power = f" (power limit {results.power_limit_w:.0f} W)" if results.power_limit_w is not None else ""
    return (
        f"Measured on one {results.device}{power}, {results.date}, commit {results.short_commit}, "
        f"{results.kernels} kernels (sources {results.kernel_sources}; if the kernels have changed since, "
        f"`python -m wavesim_gpu report` says so); {versions}. All contenders of a size ran in turns in "
        "one process, so that each met the same clocks and caches; times are medians with quartiles"
        f"{_ranges(cases)}. Every output was compared with a higher-precision reference before it was timed"
        f"{', and once more after' if results.is_judged_after else ''}."
    )


def _ranges(cases: list[TimedCandidate]) -> str:
    clocks = [median(case.clocks_ghz) for case in cases if case.clocks_ghz]
    powers = [case.power_w for case in cases if case.power_w is not None]
    said = f"; SM clocks {min(clocks):.2f} to {max(clocks):.2f} GHz" if clocks else ""
    if powers:
        said += (
            f"; power {min(powers):.0f} to {max(powers):.0f} W (the board's reading of an instant where "
            "the driver has one; the limit holds on average)"
        )
    return said


def findings(results: GpuResults) -> list[str]:
    """One sentence each: wins and losses alike, then what is not shown."""
    said = [line for workload in PAIRS for line in _pair_findings(results, workload)]
    for cases, why in ((results.wrong, "their results were wrong"), (results.empty, "no round was timed")):
        if cases:
            names = "; ".join(_name(case) for case in cases)
            said.append(f"Left out because {why} ({len(cases)}): {names}.")
    return said


def _pair_findings(results: GpuResults, workload: str) -> list[str]:
    pairs, name = pairs_of(results, workload), PAIRS[workload]
    totals = {rival: summary(speeds(pairs, "tuned", rival)) for rival in RIVALS}
    said = []
    over = "; ".join(f"{label(rival)} {total}" for rival, total in totals.items() if total is not None)
    if over:
        said.append(
            f"{name}, speed of the tuned plan, geometric mean (worst to best) at {_sizes(list(pairs))}, "
            f"over {over}."
        )
    chosen = summary(speeds(pairs, "predicted", "tuned"))
    if chosen is not None:
        said.append(
            f"{name}, speed of the simulator's choice, made from the products' times alone before any pair "
            f"was measured, over the tuned plan, which screening chose: {chosen}."
        )
    joint = summary(speeds(pairs, "persistent", "cublaslt"))
    if joint is not None:
        said.append(
            f"{name}, speed of one persistent kernel, its stages joined by semaphores, over cuBLASLt: "
            f"{joint}."
        )
    same = summary(speeds(pairs, "same-cut", "same-cut stream"))
    if same is not None:
        said.append(
            f"{name}, speed of semaphores over stream sync where both have the same tiles and order, those "
            f"in which screening found semaphores to gain the most: {same}."
        )
    return said


def _sizes(tokens: list[int]) -> str:
    large = [size for size in tokens if size >= PROMPT] or tokens
    if len(large) == 1:
        return f"M = {large[0]}"
    return f"{len(large)} sizes from M = {large[0]} to {large[-1]}"


def _name(case: TimedCandidate) -> str:
    size = f" M = {case.tokens}" if case.tokens is not None else ""
    cuts = f" in {case.words['cuts']}" if "cuts" in case.words else ""
    return f"{label(case.name)}, {case.product_of or case.workload}{size}{cuts}"
