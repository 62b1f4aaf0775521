"""Whether the kernels that the shipped benchmark timed are the same machine code today as at a commit.

    python tests/support/same_machine_code.py COMMIT [--write]

Results are tied to the sources that they were measured with, by a hash. Where the sources have grown and the
compiler still makes the same instructions of all that was timed, the results still hold: this compiles every
kernel instance that the newest results name from both source trees with NVRTC, for sm_90a, compares code and
registers byte by byte, and with --write links the two hashes in gpu/results/machine_code. It takes minutes.
"""

import argparse
import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "gpu" / "results"
TARGET = "sm_90a"
PAIRS = ("gpt3-mlp", "llama-mlp")
WIDE = "128x256"


def code_of(cubin):
    """Each kernel's instructions and registers per thread, of an ELF file, by the order of their sizes.

    Symbol names are left out: a template parameter more changes them and nothing else.
    """
    sections, size, count, names = struct.unpack_from("<Q10xHHH", cubin, 0x28)
    headers = [struct.unpack_from("<IIQQQQII", cubin, sections + i * size) for i in range(count)]
    strings = headers[names][4]
    found = []
    for name, _, _, _, at, length, _, info in headers:
        if cubin[strings + name :].startswith(b".text."):
            found.append((cubin[at : at + length], info >> 24))  # the top byte of sh_info: registers
    return sorted(found, key=lambda one: (len(one[0]), one))


def timed_cases(results):
    """What each of the results' kernels was: workload or shape, stored kernels, plan, tiles, order."""
    for case in results["cases"]:
        if case["workload"] in PAIRS and "cuts" in case:
            where = {"pair": case["workload"], "tokens": case["tokens"]}
            yield where | {key: case[key] for key in ("kernels", "plan", "cuts", "order")}
        elif case["workload"] in ("product", "cube") and "way" in case:
            kernels, cut, order = case["way"].split()
            shape = {key: case[key] for key in ("m", "n", "k")}
            activation = "none" if case["workload"] == "cube" else f"{case['of']} {case['stage']}"
            yield shape | {
                "of": activation,
                "kernels": kernels,
                "plan": "stream",
                "cuts": [cut],
                "order": order,
            }
        elif case["workload"] in ("recording", "ready-pair"):
            row = "row" if case["workload"] == "recording" else case["name"]
            where = {"pair": "gpt3-mlp", "tokens": case["tokens"], "records": case["name"] == "recorded"}
            yield where | {
                "kernels": case["kernels"],
                "plan": row,
                "cuts": [case["tile"]] * 2,
                "order": "grouped:4",
            }


def described(case):
    """(pipeline, plan) of a case."""
    from wavesim.bench.stored_kernels import kernels_named
    from wavesim.codegen.policies import GroupedSync
    from wavesim.codegen.tile_map import Blocks
    from wavesim.plan.sync import Semaphores
    from wavesim.work.gemm import Gemm
    from wavesim_gpu.bench.kinds.variants import TileConfig, mlp_pair, products_of, single

    stored, word = kernels_named(case["kernels"]), case["plan"]
    grouped = re.fullmatch(r"block:(\d+)x(\d+)", word)
    plan = stored.plan_of("row" if grouped else word, case["order"])
    if grouped:
        plan = replace(plan, sync=Semaphores(GroupedSync(*(Blocks(int(size)) for size in grouped.groups()))))
    cuts = tuple(TileConfig(*map(int, re.split("[x/]", cut))) for cut in case["cuts"])
    if "pair" in case:
        return mlp_pair(case["pair"], case["tokens"], cuts, stored.k_block), plan
    if case["of"] == "none":
        gemm = Gemm("gemm", case["m"], case["n"], case["k"], 128, 256)
    else:
        workload, stage = case["of"].split()
        gemm = products_of(workload, case["m"])[stage]
    return single(gemm, cuts[0], stored.k_block), plan


def instances(case):
    """(source, expression, build, header) of each of a case's kernels."""
    from wavesim.codegen.cuda import stage_header
    from wavesim.model.device import load
    from wavesim_gpu.driver.compiler import Build
    from wavesim_gpu.run.planned_kernels import kernels_of

    pipeline, plan = described(case)
    backend = "hopper"
    texts = {stage.name: stage_header(pipeline, plan, stage.name).text for stage in pipeline.stages}
    for kernel in kernels_of(pipeline, plan, load("h200"), backend):
        build = Build(is_recording=case.get("records", False))
        yield kernel.backend.source, kernel.launch.expression, build, kernel.header(texts)


def digests(cases):
    """Of every instance that the cases launch, by what it is; this tree's sources."""
    from wavesim_gpu.driver.compiler import compile_cubin
    from wavesim_gpu.driver.functions import GENERATED

    wanted = {}
    for case in cases:
        for number, instance in enumerate(instances(case)):
            wanted.setdefault(instance, f"{json.dumps(case, sort_keys=True)} kernel {number}")

    def digest(instance):
        source, expression, build, header = instance
        code = code_of(compile_cubin(source, (expression,), TARGET, build, {GENERATED: header}).data)
        assert code, expression
        text = b"".join(struct.pack("<II", len(part), registers) + part for part, registers in code)
        return hashlib.sha256(text).hexdigest()

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(wanted.values(), pool.map(digest, wanted), strict=True))


def facts(cases):
    """What the comparison needs of one tree."""
    from cuda.bindings import nvrtc

    from wavesim_gpu.bench.timed_sources import BESIDE, timed_hash
    from wavesim_gpu.driver.kernel_sources import source_hash

    return {
        "hash": timed_hash("hopper"),
        "beside": source_hash(
            *BESIDE
        ),  # the small kernels beside the GEMM, and sample headers: by their tokens
        "compiler": "nvrtc " + ".".join(str(part) for part in nvrtc.nvrtcVersion()[1:]),
        "digests": digests(cases),
    }


def facts_of(tree, cases):
    """`facts` of another tree's sources, in a process of its own."""
    paths = os.pathsep.join(map(str, (tree, tree / "gpu")))
    done = subprocess.run(
        [sys.executable, __file__, "--facts"],
        input=json.dumps(cases),
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def tree_at(commit, folder):
    """The sources of a commit."""
    packed = subprocess.run(
        ["git", "-C", ROOT, "archive", commit, "wavesim", "gpu/wavesim_gpu"], capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return Path(folder)


def distinct_cases(results):
    """Of cases that launch the same instances, one."""
    found = {}
    for case in timed_cases(results):
        found.setdefault(tuple(instances(case)), case)
    return list(found.values())


def main():
    """Prints what differs; exits with 1 if something does."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?")
    parser.add_argument(
        "--write", action="store_true", help="link the two sources' hashes if all is the same"
    )
    parser.add_argument("--facts", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.facts:
        json.dump(facts(json.load(sys.stdin)), sys.stdout)
        return 0
    from wavesim.bench.gpu_results import newest_results
    from wavesim_gpu.bench.timed_sources import FOLDER

    newest = newest_results(RESULTS)
    cases = distinct_cases(json.loads(newest.read_text()))
    with tempfile.TemporaryDirectory() as folder:
        before, after = facts_of(tree_at(options.commit, folder), cases), facts_of(ROOT, cases)
    differ = [name for name, digest in before["digests"].items() if after["digests"].get(name) != digest]
    differ += [name for name in after["digests"] if name not in before["digests"]]
    if before["beside"] != after["beside"]:
        differ.append("the kernels beside the GEMM, or the generator's sample headers, by their tokens")
    for name in differ:
        sys.stdout.write(f"differs: {name}\n")
    found = f"{len(before['digests'])} instances of {newest.name}, {len(differ)} differ"
    sys.stdout.write(f"{found}: {before['hash']} -> {after['hash']}\n")
    if options.write and not differ:
        digests = sorted(after["digests"].values())
        link = {
            "from": before["hash"],
            "to": after["hash"],
            "target": TARGET,
            "compiler": after["compiler"],
            "results": newest.name,
            "instances": len(digests),
            "code_sha256": hashlib.sha256("".join(digests).encode()).hexdigest(),
        }
        path = RESULTS / FOLDER / f"{link['from']}-{link['to']}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(link, indent=1) + "\n")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
