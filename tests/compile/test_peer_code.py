"""The kernels among peers, compiled: orders in machine code, no spills, system scope on what crosses GPUs."""

import re
import subprocess

import pytest

from wavesim.codegen.cuda import stage_header
from wavesim.lint.check import findings_of
from wavesim.lint.finding import Known
from wavesim.lint.ptx import listing_of_ptx
from wavesim.work.collective import Collective
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.driver.functions import GENERATED
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_CONFIGS
from wavesim_gpu.peers.problem import SharedGemm
from wavesim_gpu.peers.products import EXCHANGE, GATHER, GEMM, SCATTER, gemm_expression
from wavesim_gpu.peers.push import PUSH
from wavesim_gpu.peers.sends import COPY, SEND
from wavesim_gpu.peers.sums import REDUCE

SUMS, FEW, SHARES = "push_sums<2, true, 4>", "push_few<2, true>", "push_shares<8, true>"
HALVES, SCATTERED = "push_halves<true, false>", "push_halves<true, true>"
NORM = "reduce_norm<RowConfig<512, 512, 3>, 2, false>"
pytestmark = pytest.mark.usefixtures("nvrtc")


def gemm_of(kind, params=None):
    problem = SharedGemm(1024, 1024, 512, Collective(kind))
    header = stage_header(problem.pipeline, problem.plan, "gemm").text
    params = params or (GATHER if problem.gathers else SCATTER)
    name = gemm_expression(problem, TILE_CONFIGS[problem.tile_m, problem.tile_n], params)
    return compile_cubin(GEMM, [name], "sm_90a", Build(), {GENERATED: header})


def code_of(cubin, path, nvdisasm):
    path.write_bytes(cubin.data)
    listing = subprocess.run([nvdisasm, path], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if re.match(r"\s*/\*[0-9a-f]{4,}\*/", line)]


def places(code, pattern):
    return [place for place, line in enumerate(code) if re.search(pattern, line)]


def test_tiles_are_posted_when_tma_has_written_them_and_not_when_it_has_read_them(tmp_path, nvdisasm):
    code = code_of(gemm_of("all-reduce"), tmp_path / "gemm.cubin", nvdisasm)
    stores, waits = places(code, r"UTMASTG\.3D"), places(code, r"DEPBAR\.LE SB0, 0x0")
    fences, posts = places(code, r"MEMBAR\.\w+\.SYS"), places(code, r"STG\.E\.STRONG\.SYS")
    # The last store, all groups written, the other warp's count, release at system scope, the word.
    counted = next(place for place in places(code, r"ATOMS\.ADD") if place > max(stores))
    written = max(place for place in waits if place < counted)
    fence = next(place for place in fences if place > counted)
    assert max(stores) < written < counted < fence < next(post for post in posts if post > fence)
    assert not [line for line in code if "STL" in line or "LDL" in line]


def test_rows_from_peers_are_acquired_at_system_scope_and_fenced_before_tma_loads_them(tmp_path, nvdisasm):
    code = code_of(gemm_of("all-gather"), tmp_path / "gemm.cubin", nvdisasm)
    polls, fences = places(code, r"LDG\.E\.STRONG\.SYS"), places(code, r"FENCE\.VIEW\.ASYNC\.G")
    assert polls
    assert fences
    assert min(polls) < min(fences) < max(places(code, r"UTMALDG"))
    assert not [line for line in code if "STL" in line or "LDL" in line]


def test_an_epilogue_adds_what_it_has_acquired_and_posts_what_tma_has_written(tmp_path, nvdisasm):
    code = code_of(gemm_of("all-reduce", EXCHANGE), tmp_path / "gemm.cubin", nvdisasm)
    polls, loads = places(code, r"LDG\.E\.STRONG\.SYS"), places(code, r"UTMALDG\.3D")
    fences, stores = places(code, r"FENCE\.VIEW\.ASYNC\.G"), places(code, r"UTMASTG")
    # Behind the last poll the fence between ordinary loads and TMA's, then the load of what has come.
    acquired = max(poll for poll in polls if poll < max(stores))
    fenced = next(fence for fence in fences if fence > acquired)
    assert fenced < next(load for load in loads if load > fenced)
    assert min(polls) < min(stores)
    counted = next(place for place in places(code, r"ATOMS\.ADD") if place > max(stores))
    written = max(place for place in places(code, r"DEPBAR\.LE SB0, 0x0") if place < counted)
    fence = next(place for place in places(code, r"MEMBAR\.\w+\.SYS") if place > counted)
    posted = next(post for post in places(code, r"STG\.E\.STRONG\.SYS") if post > fence)
    assert max(stores) < written < counted < fence < posted
    assert not [line for line in code if "STL" in line or "LDL" in line]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("source", "name"),
    [
        *((REDUCE, "reduce_tiles<2, true>"), (REDUCE, NORM), (SEND, ""), (COPY, "")),
        *((PUSH, SUMS), (PUSH, SHARES), (PUSH, HALVES), (PUSH, SCATTERED)),
    ],
    ids=["reduce", "norm", "send", "copy", "push", "push shares", "halves", "halves scattered"],
)
def test_words_of_peers_have_system_scope_and_lint_finds_nothing_wrong(source, name, arch):
    cubin = compile_cubin(source, [name] if name else [], arch, Build())
    words = re.findall(r"\b((?:ld|st)\.(?:acquire|release|relaxed)\.\w+)", cubin.ptx)
    assert {"ld.acquire.sys", "st.release.sys", "ld.relaxed.sys"} <= set(words)
    # What stays inside a GPU: the number of the call, and what counts its blocks.
    assert {word for word in words if word.endswith("gpu")} <= {"ld.relaxed.gpu", "st.relaxed.gpu"}
    wrong = [one for one in findings_of(listing_of_ptx(cubin.ptx, source.name)) if one.verdict == "wrong"]
    assert [(one.rule, one.why) for one in wrong] == []


def test_few_outputs_travel_with_their_calls_number_in_words_of_64_bits_and_without_a_fence():
    ptx = compile_cubin(PUSH, [FEW], "sm_90a", Build()).ptx
    assert {"st.relaxed.sys.global.u64", "ld.relaxed.sys.global.u64"} <= set(
        re.findall(r"[ls][td][\w.]+u64", ptx)
    )
    before_waits = ptx[ptx.index(".entry") : ptx.index("ld.relaxed.sys.global.u64")]
    assert "st.relaxed.sys.global.u64" in before_waits
    assert "fence" not in before_waits
    assert ".release" not in before_waits
    wrong = [one for one in findings_of(listing_of_ptx(ptx, FEW)) if one.verdict == "wrong"]
    assert [(one.rule, one.why) for one in wrong] == []


# Kernels whose parameters hold other GPUs' addresses, and which parameter that is.
REMOTE = {
    "product to peers": (lambda: gemm_of("all-reduce"), "1"),
    "product and sums": (lambda: gemm_of("all-reduce", EXCHANGE), "1"),
    "product from peers": (lambda: gemm_of("all-gather"), "1"),
    "sums": (lambda: compile_cubin(REDUCE, ["reduce_tiles<2, true>"], "sm_90a", Build()), "0"),
    "norm": (lambda: compile_cubin(REDUCE, [NORM], "sm_90a", Build()), "0"),
    "pushed sums": (lambda: compile_cubin(PUSH, [SUMS], "sm_90a", Build()), "0"),
    "pushed shares": (lambda: compile_cubin(PUSH, [SHARES], "sm_90a", Build()), "0"),
    "halves": (lambda: compile_cubin(PUSH, [HALVES], "sm_90a", Build()), "0"),
    "send blocks": (lambda: compile_cubin(SEND, [], "sm_90a", Build()), "0"),
    "copies": (lambda: compile_cubin(COPY, [], "sm_90a", Build()), "0"),
}


@pytest.mark.parametrize("kernel", REMOTE)
def test_lint_knows_what_is_remote_and_finds_each_word_between_gpus_of_a_narrower_scope(kernel):
    compiled, parameter = REMOTE[kernel]
    ptx = compiled().ptx

    def narrow(text):
        found = findings_of(listing_of_ptx(text, kernel), Known(remote=frozenset({parameter})))
        return {
            re.match(r"[a-z_]+(\.[a-z_]+)*", one.instruction.text)[0]
            for one in found
            if (one.rule, one.verdict) == ("no-system-scope", "wrong")
        }

    # What stays inside a GPU lies behind the same parameter: counts of its own blocks and splits.
    counts = {"atom.acq_rel.gpu.global.add.u", "red.release.gpu.global.add.u"}
    assert narrow(ptx) <= counts
    assert "st.release.gpu.global.u" in narrow(ptx.replace("st.release.sys", "st.release.gpu"))
    waits = ptx.replace("ld.acquire.sys", "ld.acquire.gpu").replace("ld.relaxed.sys", "ld.relaxed.gpu")
    if kernel != "product to peers":  # which waits for nobody
        assert any(word.startswith("ld.") for word in narrow(waits))
