"""`wavesim lint`: exit status, JSON, files written, what the user says of parameters, CUDA C++ compiled."""

import json
import re
from pathlib import Path

import pytest

from wavesim.cli.command_line import main

HEAD = ".version 8.5\n.target sm_90a\n.address_size 64\n"
CONSUMER = """
.visible .entry consume(.param .u64 consume_param_0, .param .u64 consume_param_1, .param .u64 consume_param_2)
{{
    .reg .pred %p<4>;
    .reg .b32 %r<8>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<12>;
    ld.param.u64 %rd1, [consume_param_0];
    ld.param.u64 %rd2, [consume_param_1];
    ld.param.u64 %rd3, [consume_param_2];
    mov.u32 %r1, %tid.x;
    setp.ne.s32 %p1, %r1, 0;
    @%p1 bra $L_ready;
$L_poll:
    ld.{poll}.gpu.global.u32 %r2, [%rd3];
    setp.eq.u32 %p2, %r2, 0;
    @%p2 bra $L_poll;
$L_ready:
    bar.sync 0;
    mul.wide.u32 %rd4, %r1, 4;
    add.s64 %rd5, %rd1, %rd4;
    ld.global.f32 %f1, [%rd5];
    add.s64 %rd6, %rd2, %rd4;
    st.global.f32 [%rd6], %f1;
    ret;
}}
"""


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.ptx"
    path.write_text(HEAD + CONSUMER.format(poll="relaxed"))
    return path


@pytest.fixture
def right(tmp_path: Path) -> Path:
    path = tmp_path / "right.ptx"
    path.write_text(HEAD + CONSUMER.format(poll="acquire"))
    return path


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    status = main(["lint", *map(str, words)])
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.mark.parametrize("name", ["0", "consume:0", "consume_param_0"])
def test_a_wait_without_acquire_is_wrong_and_the_status_is_one(name, wrong, capsys):
    status, out, _ = run(capsys, wrong, "--produced", name)
    assert status == 1
    assert re.search(r"WRONG +wait: no-acquire\n +18 \| ld\.relaxed\.gpu", out)


def test_a_right_kernel_has_status_zero_and_says_what_is_right(right, capsys):
    status, out, _ = run(capsys, right, "--produced", "consume:0")
    assert status == 0
    assert "right " in out
    assert "WRONG" not in out


def test_json_is_one_object_with_the_agreed_fields(wrong, capsys):
    status, out, _ = run(capsys, wrong, "--json")
    document = json.loads(out)
    assert status == 1
    assert 0 < document["seconds"] < 5
    (finding,) = (finding for finding in document["findings"] if finding["verdict"] == "wrong")
    assert (finding["kernel"], finding["kind"], finding["rule"], finding["line"]) == (
        "consume",
        "wait",
        "no-acquire",
        18,
    )


def test_sarif_and_page_are_written_where_they_are_asked_for(wrong, tmp_path, capsys):
    log, page = tmp_path / "lint.sarif", tmp_path / "lint.html"
    assert run(capsys, wrong, "--sarif", log, "--html", page)[0] == 1
    (result,) = (
        outcome for outcome in json.loads(log.read_text())["runs"][0]["results"] if outcome["kind"] == "fail"
    )
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 18
    assert "the page, complete in one file" not in page.read_text()
    assert 'class="line named wrong"' in page.read_text()


def test_a_page_that_cannot_be_written_is_refused_before_the_file_is_read(tmp_path, capsys):
    status, _, said = run(capsys, tmp_path / "nowhere.ptx", "--html", tmp_path)
    assert status == 2
    assert "not a regular file" in said


def test_only_the_kernels_that_are_asked_for_are_judged(wrong, capsys):
    both = wrong.read_text() + CONSUMER.format(poll="relaxed").replace("consume", "another")
    wrong.write_text(both)
    document = json.loads(run(capsys, wrong, "--kernel", "^anoth", "--json")[1])
    assert {finding["kernel"] for finding in document["findings"]} == {"another"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--produced", "3"], "there are 3 parameters, 0 to 2"),
        (["--flag", "produce:0"], "no kernel 'produce'"),
        (["--flag", "counters"], "neither a parameter's number nor a variable"),
        (["--constant", "9" * 400], "neither a parameter's number"),
        (["--remote", "0,0"], "'0' again"),
        (["--constant", ""], "is empty"),
        (["--kernel", "("], "no regular expression"),
        (["--kernel", "nothing"], "no kernel of"),
        (["--arch", "sm_80"], "wrong.ptx has sm_90a"),
        (["--instance", "f<1>"], "is of CUDA C++"),
    ],
)
def test_what_the_file_does_not_have_is_refused_in_one_line(wrong, capsys, words, said):
    status, out, err = run(capsys, wrong, *words)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_cuda_cpp_goes_through_the_installed_compiler_once_for_each_architecture(
    wrong, tmp_path, capsys, monkeypatch
):
    asked = []

    class Compiler:
        @staticmethod
        def load():
            def compile_source(path, arch, instances, folders, seconds):
                asked.append((path.name, arch, tuple(instances)))
                return wrong.read_text().replace("sm_90a", arch), b""

            return compile_source

    source = tmp_path / "pair.cu"
    source.write_text("template <int N> __global__ void consume();")
    monkeypatch.setattr("wavesim.lint.files.entry_points", lambda group: [Compiler])
    status, out, _ = run(capsys, source, "--arch", "sm_80,sm_90a", "--instance", "consume<2>", "--json")
    assert status == 1
    assert asked == [("pair.cu", "sm_80", ("consume<2>",)), ("pair.cu", "sm_90a", ("consume<2>",))]
    places = [finding["where"] for finding in json.loads(out)["findings"] if finding["verdict"] == "wrong"]
    assert places == ["pair.cu, PTX for sm_80", "pair.cu, PTX for sm_90a"]


WAITLESS = """
.visible .entry r(.param .u64 r_param_0, .param .u64 r_param_1)
{
    .reg .f32 %f<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [r_param_0];
    ld.param.u64 %rd2, [r_param_1];
    ld.global.f32 %f1, [%rd1];
    st.global.f32 [%rd2], %f1;
    ret;
}
"""


def test_a_kernel_launched_dependent_must_wait_and_strict_fails_what_is_unknown(tmp_path, capsys):
    path = tmp_path / "short.ptx"
    path.write_text(HEAD + WAITLESS)
    status, said, _ = run(capsys, path)
    assert status == 0
    assert "r (" in said, "a kernel is judged whose name is a part of .entry"
    assert run(capsys, path, "--strict")[0] == 1
    status, said, _ = run(capsys, path, "--launched-dependent")
    assert status == 1
    assert "one-sided-dependent-launch" in said


def test_macros_and_missing_ones_of_a_source_are_told(tmp_path, capsys, nvrtc, nvdisasm):
    path = tmp_path / "scaled.cu"
    path.write_text("#include <cuda/atomic>\n__global__ void scaled(float* x) { x[threadIdx.x] *= SCALE; }\n")
    status, said, _ = run(capsys, path, "-D", "SCALE=2")
    assert status == 0
    assert "scaled [_Z6scaledPf]" in said
    status, _, complaint = run(capsys, path)
    assert status == 2
    assert '"SCALE" is undefined' in complaint
    assert "1 | #include" not in complaint, "the compiler's message, not the source"
    assert run(capsys, path, "-D", "2=SCALE")[0] == 2


def test_a_baseline_accepts_what_is_there_and_reports_what_comes_on_top(wrong, tmp_path, capsys):
    kept = tmp_path / "lint.json"
    assert run(capsys, wrong, "--write-baseline", kept)[0] == 1
    status, out, err = run(capsys, wrong, "--baseline", kept, "--json")
    assert status == 0
    assert "accepts are left out" in err
    assert json.loads(out)["counts"]["wrong"] == 0
    text = CONSUMER.format(poll="relaxed")
    wrong.write_text(HEAD + text + text.replace("consume", "drain"))
    status, out, _ = run(capsys, wrong, "--baseline", kept, "--json")
    assert status == 1
    new = [finding for finding in json.loads(out)["findings"] if finding["verdict"] == "wrong"]
    assert {finding["kernel"] for finding in new} == {"drain"}


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"version": 2, "accepted": []}', '{"version": 1, "accepted": [{}]}']
)
def test_another_file_is_no_baseline(wrong, tmp_path, capsys, text):
    kept = tmp_path / "lint.json"
    kept.write_text(text)
    status, _, err = run(capsys, wrong, "--baseline", kept)
    assert status == 2
    assert "lint.json" in err


def test_instances_of_a_template_with_the_same_findings_are_told_once(wrong, capsys):
    text = CONSUMER.format(poll="relaxed")
    names = [f"_Z7consumeILi{size}EEvPfS0_Pj" for size in (32, 64, 128)]
    wrong.write_text(HEAD + "".join(text.replace("consume(", f"{name}(") for name in names))
    _, out, _ = run(capsys, wrong)
    assert out.count("no-acquire") == 1
    assert "and 2 more instances of it with the same findings" in out


def test_in_a_checkout_the_log_names_files_relative_to_it(wrong, tmp_path, capsys, monkeypatch):
    source = tmp_path / "src" / "pair.ptx"
    source.parent.mkdir()
    source.write_text(wrong.read_text())
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "src/pair.ptx", "--sarif", "lint.sarif")[0] == 1
    results = json.loads(Path("lint.sarif").read_text())["runs"][0]["results"]
    places = [result["locations"][0]["physicalLocation"] for result in results]
    assert {place["artifactLocation"]["uri"] for place in places} == {"src/pair.ptx"}
    poll = 1 + source.read_text().splitlines().index("    ld.relaxed.gpu.global.u32 %r2, [%rd3];")
    assert poll in {place["region"]["startLine"] for place in places}
