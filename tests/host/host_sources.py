"""Our CUDA headers for a host compiler: each PTX instruction becomes a call that names it, no more.

Example: `asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory")` in
`load_acquire` becomes `host::ptx<"ld.acquire.gpu.global.u32 %0, [%1];">(__func__, value, counter)`, which
ptx_on_host.h gives the meaning that the instruction's own text says. So what runs on the host is what is
compiled for the GPU: an instruction that is changed there is changed here. A `__shared__` variable becomes
a reference to the block's own: `__shared__ bool is_last;` is
`struct the_is_last; auto& is_last = host::of_block<std::type_identity_t<bool>, the_is_last>();`. Reports
name the function that declares it, as known_races.txt does.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOST = Path(__file__).parent
GPU = ROOT / "gpu" / "wavesim_gpu"
# Folders as `#include <...>` names them.
FOLDERS = {
    "cusync": GPU,
    "record": GPU,
    "kernels/gemm/sm80": GPU,
    "kernels/gemm/sm90": GPU,
    "kernels/convolution": GPU,
    "kernels/rows": GPU,
    "kernels/attention": GPU,
    "kernels/collective": GPU,
    "wavesim": ROOT,
}
# Made by macros and run by no program.
LEFT_OUT = "kernels/attention/sm90"
FLAGS = (
    "-std=c++20",
    "-O1",
    "-g",
    "-fsanitize=thread",
    "-Wall",
    "-Wextra",
    "-Wno-unknown-pragmas",
    "-Wno-tsan",
)

# An instruction that orders: with an order in its name, a fence, a barrier, or the end of copies.
ORDERING = re.compile(
    r"\.acquire|\.release|\.acq_rel|\bfence\.|mbarrier\.(arrive|t\w+_wait)|wait_group|bar\.sync|\bbarrier\."
)
_SHARED = re.compile(
    r"(?P<extern>extern )?__shared__ (?:__align__\(\d+\) )?"
    r"(?P<type>[\w:<> ]+?) (?P<name>\w+)(?P<sizes>(?:\[[^\]]*\])*);"
)
_ASM = re.compile(r"\basm(?:\s+volatile)?\s*\(")
_FUNCTION = re.compile(r"__device__[^;{}()]*?\b(\w+)\s*\(")


@dataclass(frozen=True)
class Instruction:
    """One asm statement: its function, text and operands, and where it stands in the file."""

    function: str
    text: str
    operands: tuple[str, ...]
    begin: int
    end: int

    @property
    def orders(self) -> bool:
        """Whether dropping it could let a thread see what is not yet there."""
        return ORDERING.search(self.text) is not None


def instructions(source: str) -> list[Instruction]:
    """The asm statements of a file, in order."""
    found = []
    for match in _ASM.finditer(source):
        end = _closing(source, match.end() - 1)
        text, *operands = _parts(source[match.end() : end], ":")
        names = _FUNCTION.findall(source[: match.start()])
        found.append(
            Instruction(
                function=names[-1] if names else "",
                text=text.strip(),
                operands=tuple(
                    operand[operand.index("(") :]
                    for group in operands[:2]
                    for operand in _parts(group, ",")
                    if operand.strip()
                ),
                begin=match.start(),
                end=end + 1,
            )
        )
    return found


@dataclass(frozen=True)
class Replacement:
    """What stands on the host in the place of a piece of a file."""

    begin: int
    end: int
    text: str


def replacements(source: str) -> list[Replacement]:
    """Every asm statement as a call, every shared variable as the block's own, in order."""
    found = [
        Replacement(one.begin, one.end, f"host::ptx<{one.text}>({', '.join(('__func__', *one.operands))})")
        for one in instructions(source)
    ]
    for match in _SHARED.finditer(source):
        if match["extern"]:
            text = f"{match['type']}* const {match['name']} = host::dynamic_shared();"
        else:
            kind = f"std::type_identity_t<{match['type']}{match['sizes']}>"
            tag = f"the_{match['name']}"  # local: its name has the function's
            text = f"struct {tag}; auto& {match['name']} = host::of_block<{kind}, {tag}>();"
        found.append(Replacement(match.start(), match.end(), text))
    return sorted(found, key=lambda one: one.begin)


def on_host(source: str) -> str:
    """The file with all that is replaced."""
    done, at = [], 0
    for one in replacements(source):
        done += [source[at : one.begin], one.text]
        at = one.end
    return "".join([*done, source[at:]])


def is_left_out(file: Path) -> bool:
    """Whether a file of ours is not taken: another stands in for it, or no program has it."""
    return (HOST / "shadow" / file).exists() or file.as_posix().startswith(LEFT_OUT)


def write_headers(folder: Path) -> None:
    """All our headers for the host, in a folder to include from. Those in shadow/ stand in for ours."""
    for name, root in FOLDERS.items():
        for file in sorted((root / name).rglob("*.cu*")):
            if is_left_out(file.relative_to(root)):
                continue
            to = folder / file.relative_to(root)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_text(on_host(file.read_text()))
    shutil.copytree(HOST / "shadow", folder, dirs_exist_ok=True)


def build(program: str, folder: Path, generated: str, *defines: str) -> Path:
    """A program of this folder, compiled over the generated header. `folder` is for all that is made."""
    write_headers(folder)
    (folder / "generated.cuh").write_text(f"struct int4 {{ int x, y, z, w; }};\n{on_host(generated)}")
    to = folder / program
    command = ["g++", *FLAGS, *(f"-D{one}" for one in defines), "-I", folder, "-I", HOST]
    done = subprocess.run(
        [*command, HOST / f"{program}.cpp", "-o", to], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{program}.cpp does not compile:\n{done.stderr[:8000]}")
    return to


def _closing(source: str, at: int) -> int:
    """Where the bracket that opens at `at` closes; brackets in strings do not count."""
    depth = 0
    for match in re.compile(r'"(?:\\.|[^"\\])*"|[()]').finditer(source, at):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0:
            return match.start()
    raise ValueError("a bracket is not closed")


def _parts(text: str, by: str) -> list[str]:
    """The text between separators that are in no bracket and no string."""
    parts, depth, begin = [], 0, 0
    for match in re.compile(r'"(?:\\.|[^"\\])*"|[()\[\]{}]|' + by).finditer(text):
        if match[0] == by and depth == 0:
            parts.append(text[begin : match.start()])
            begin = match.end()
        elif len(match[0]) == 1 and match[0] != by:
            depth += 1 if match[0] in "([{" else -1
    return [*parts, text[begin:]]
