"""Compiles the corpus of `wavesim lint` and packs its listings. Needs NVRTC and nvdisasm, and no GPU.

`python tests/support/lint_corpus.py` compiles what is new (results are kept in a cache) and writes
`tests/data/lint/listings.tar.xz`; with names of templates it says only whether those compile.
`--sealed-2` or `--fresh` as first word takes the corpus in that folder: some of it includes the C++ headers
beside nvcc, some is PTX, for ptxas.
"""

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lint_cases import (
    FOLDER,
    FRESH,
    KINDS,
    PDL_BUGS,
    SEALED_2,
    SEALED_HASH,
    Case,
    cases,
    packed,
    sealed_sha256,
)

from wavesim.lint import disassembler, elf
from wavesim.lint.disassembler import disassembly

CACHE = Path(tempfile.gettempdir()) / "wavesim-lint-corpus"
DISASSEMBLER = hashlib.sha256(
    b"".join(Path(m.__file__).read_bytes() for m in (disassembler, elf))
).hexdigest()[:8]


def main(words):
    folders = {"--sealed-2": SEALED_2, "--fresh": FRESH, "--pdl-bugs": PDL_BUGS, "--kinds": KINDS}
    folder = folders.get(words[0] if words else "", FOLDER)
    templates = words if folder == FOLDER else words[1:]
    made = [case for case in cases(folder) if not templates or case.template in templates]
    with ThreadPoolExecutor(max_workers=2) as pool:
        listings = [listing for made_of_case in pool.map(listings_of, made) for listing in made_of_case]
    problems = duplicates(made, dict(listings))
    if not templates:
        (folder / "listings.tar.xz").write_bytes(archive_of(listings))
    if not templates and folder in (SEALED_2, FRESH):
        (folder / SEALED_HASH).write_text(f"{sealed_sha256(folder)}\n")
    mutants = sum(case.family == "mutant" for case in made)
    size = sum(len(text) for _, text in listings)
    say = [
        *problems,
        f"{len(made)} cases, {mutants} mutants, {len(listings)} listings of {size / 1e6:.1f} MB",
    ]
    sys.stdout.write("\n".join(say) + "\n")
    return 1 if problems else 0


def listings_of(case: Case) -> list[tuple[str, str]]:
    """Name and text of a case's PTX, for its first architecture, and of its machine code, for each."""
    listings = []
    for arch in case.archs:
        ptx, sass = compiled(case, arch) if "/" not in case.template else made_elsewhere(case, arch)
        if arch == case.archs[0]:
            listings.append((f"{case.name}.{arch}.ptx", ptx))
        listings.append((f"{case.name}.{arch}.sass", sass))
    return listings


def compiled(case: Case, arch: str) -> tuple[str, str]:
    """PTX and the disassembly, trimmed of what nobody reads."""
    kept = CACHE / hashlib.sha256(repr(inputs(case, arch)).encode()).hexdigest()[:24]
    ptx, cubin = kept.with_suffix(".ptx"), kept.with_suffix(".cubin")
    if not ptx.exists():
        made = from_ptxas(case, arch) if case.is_assembly else from_nvrtc(case, arch)
        keep(cubin, made[1])
        keep(ptx, made[0].encode())
    sass = kept.with_suffix(f".{DISASSEMBLER}.sass")
    if not sass.exists():
        keep(sass, disassembly(cubin.read_bytes(), case.name).encode())
    return trimmed_ptx(ptx.read_text()), trimmed_sass(sass.read_text())


def inputs(case: Case, arch: str) -> tuple[str, dict[str, str], tuple[str, ...]]:
    """Source, headers and options."""
    places = (FOLDER, case.folder)
    files = (path for folder in places for path in sorted((folder / "templates").glob("*.cuh")))
    headers = {path.name: path.read_text() for path in files}
    defined = (f"-D{name}=1" for name in case.defines)
    folders = cuda_headers() if case.folder != FOLDER and not case.is_assembly else ()
    options = (f"--gpu-architecture={arch}", "--std=c++17", "-lineinfo", *defined, *folders)
    return case.source.read_text(), headers, options


def cuda_headers():
    """Options for CUDA's headers and its C++ library, beside the nvcc that is found."""
    said = subprocess.run(
        ["nvcc", "--dryrun", "-cubin", "none.cu"], capture_output=True, text=True, check=False
    )
    top = re.search(r"(?m)^#\$ TOP=(.*)$", said.stderr)
    return (f"-I{top[1]}/include", f"-I{top[1]}/include/cccl") if top else ()


def from_ptxas(case: Case, arch: str) -> tuple[str, bytes]:
    """The case's PTX, for `arch`, and the cubin that ptxas makes of it."""
    ptx = chosen_lines(case.source.read_text(), case.defines).replace("ARCH", arch)
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "case.ptx"), Path(folder, "case.cubin")
        source.write_text(ptx)
        command = [shutil.which("ptxas") or "ptxas", f"-arch={arch}", str(source), "-o", str(cubin)]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        if said.returncode != 0:
            raise SystemExit(f"{case.name} {arch}: {said.stderr}")
        return ptx, cubin.read_bytes()


def chosen_lines(text, defines):
    """The lines of an assembly template: "// if X, Y" ends one that stands where either is defined, and
    "// unless X, Y" one that stands where neither is.
    """
    kept = []
    for line in text.splitlines():
        condition = re.search(r"\s*// (if|unless) ([A-Z]\w*(?:, \w+)*)$", line)
        if condition is None:
            kept.append(line)
        elif any(name in defines for name in condition[2].split(", ")) == (condition[1] == "if"):
            kept.append(line[: condition.start()])
    return "\n".join(kept) + "\n"


def made_elsewhere(case: Case, arch: str) -> tuple[str, str]:
    """What `lint_corpus_others.py` has just made, or else what is packed already."""
    names = [f"{case.name}.{arch}.ptx", f"{case.name}.{arch}.sass"]
    texts = [
        (CACHE / name).read_text() if (CACHE / name).exists() else packed().get(name, "") for name in names
    ]
    return trimmed_ptx(texts[0]), trimmed_sass(texts[1])


def keep(path, data):
    """Whole or not at all."""
    CACHE.mkdir(exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    part.write_bytes(data)
    part.rename(path)


def from_nvrtc(case: Case, arch: str) -> tuple[str, bytes]:
    """PTX and cubin."""
    from cuda.bindings import nvrtc as library

    text, headers, options = inputs(case, arch)
    encoded = [word.encode() for word in headers.values()], [word.encode() for word in headers]
    _, program = library.nvrtcCreateProgram(text.encode(), case.source.name.encode(), len(headers), *encoded)
    (status,) = library.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    if int(status) != 0:
        log = b" " * library.nvrtcGetProgramLogSize(program)[1]
        library.nvrtcGetProgramLog(program, log)
        raise SystemExit(f"{case.name} {arch}: {log.decode()}")
    ptx = b" " * library.nvrtcGetPTXSize(program)[1]
    library.nvrtcGetPTX(program, ptx)
    cubin = b" " * library.nvrtcGetCUBINSize(program)[1]
    library.nvrtcGetCUBIN(program, cubin)
    library.nvrtcDestroyProgram(program)
    return ptx.decode().rstrip("\0"), cubin


def trimmed_ptx(ptx):
    """Without comments, debug sections and the folder in which it was compiled."""
    kept = re.sub(r"(?m)^\s*//.*\n", "", ptx)
    kept = re.sub(r"(?ms)^\s*\.section\s+\.debug.*?^\s*\}\n", "", kept)
    return re.sub(r'(?m)^(\s*\.file\s+\d+ )"[^"]*/', r'\1"', kept)


def trimmed_sass(text):
    """Without padding, spaces at the ends of lines and the folder in which it was compiled."""
    text = re.sub(r"(?m)^ +/\*[0-9a-f]+\*/ +NOP ?;\s*\n", "", text)
    text = re.sub(r'(?m)^(\s*//## File )"[^"]*/', r'\1"', text)
    return re.sub(r"[ \t]+(?=\n)", "", re.sub(r" {4,}", "    ", text))


def duplicates(made, listings):
    """Cases whose code is another's: they would be counted twice, or are a fault that changes nothing."""
    seen, problems = {}, []
    for case in made:
        ptx = re.sub(r"(?m)^\s*\.(loc|file).*\n", "", listings[f"{case.name}.{case.archs[0]}.ptx"])
        sass = re.sub(r"(?m)^\s*//##.*\n", "", listings[f"{case.name}.{case.archs[0]}.sass"])
        other = seen.setdefault((ptx, sass), case.name)
        if other != case.name:
            problems.append(f"{case.name} is the same code as {other}")
    return problems


def archive_of(listings):
    """A tar.xz, the same bytes for the same texts."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz", preset=9) as archive:
        for name, text in sorted(listings):
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
