"""`wavesim lint`: is the synchronisation in compiled kernels in order? From PTX, machine code or CUDA C++.

Example: `wavesim lint pair.cubin --produced consume:0 --html pair.html` judges every wait and post, says why,
and draws the listing with the reasons beside the lines; `wavesim lint pair.cu --arch sm_80,sm_90a` compiles
it first.
"""

import argparse
import json
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from wavesim.cli.printing import complain, print_result
from wavesim.cli.shared_options import add_shared
from wavesim.errors import DescriptionError
from wavesim.lint.baseline import baseline_document, beyond, read_baseline
from wavesim.lint.check import findings_of_all
from wavesim.lint.files import COMPILE_SECONDS, SUFFIX, compiled, listings_of
from wavesim.lint.finding import Known
from wavesim.lint.instruction import KernelCode, Listing
from wavesim.lint.report import LintReport, findings_document, findings_text
from wavesim.safe_io.bounds import bounded_text, is_plain, listed, shown
from wavesim.safe_io.options import number
from wavesim.safe_io.writing import require_writable, write_bytes, write_text

DEFAULT_ARCH = "sm_90a"
# What the user may say of parameters: option, field of `Known`, meaning.
SAID = {
    "produced": "what another kernel writes meanwhile",
    "constant": "what no kernel writes meanwhile",
    "remote": "memory of another GPU or of the host",
    "flag": "semaphores",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "file", type=_path, help="PTX, cubin, fatbin, .so, CUDA C++ (.cu), or a folder such as Triton's cache"
    )
    parser.add_argument("--kernel", metavar="REGEX", help="only kernels whose name this is found in")
    for name, meaning in SAID.items():
        parser.add_argument(
            f"--{name}", metavar="P,...", help=f"parameters (0, kernel:2) or symbols: {meaning}"
        )
    parser.add_argument(
        "--launched-dependent",
        action="store_true",
        help="the kernels are launched with programmatic stream serialization: each must wait for the grid",
    )
    parser.add_argument("--strict", action="store_true", help="exit status 1 where something is unknown, too")
    parser.add_argument(
        "--sarif", type=Path, help="write what is wrong or unknown for code review, SARIF 2.1.0"
    )
    parser.add_argument(
        "--baseline", type=Path, help="leave out findings that this file accepts, one of --write-baseline"
    )
    parser.add_argument(
        "--write-baseline", type=Path, metavar="FILE", help="keep what is wrong or unknown as accepted"
    )
    add_shared(parser, "--html", html="write the listing with reasons beside its lines to this page")
    parser.add_argument(
        "--arch", help=f"only these architectures; CUDA C++ is compiled for them ({DEFAULT_ARCH})"
    )
    parser.add_argument(
        "--instance", action="append", help="of CUDA C++, a template instance such as 'f<64, 2>'"
    )
    parser.add_argument(
        "-I", "--include", action="append", type=Path, help="of CUDA C++, a folder to search for its includes"
    )
    parser.add_argument(
        "-D",
        "--define",
        action="append",
        metavar="NAME[=VALUE]",
        help="of CUDA C++, a macro to compile it with",
    )
    parser.add_argument(
        "--compile-seconds",
        type=number,
        default=COMPILE_SECONDS,
        help=f"of CUDA C++, how long compiling may take, with 100 MB a second ({COMPILE_SECONDS:g})",
    )


def _path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("it is empty; give a file or a folder")
    return Path(text)


def run(options: argparse.Namespace) -> int:
    """Reads, judges and reports; status 1 where something is wrong."""
    require_writable(options.html, options.sarif, options.write_baseline)
    accepted = read_baseline(options.baseline) if options.baseline is not None else None
    began = time.perf_counter()
    listings = _listings(options)
    known = _known(options, listings)
    findings = findings_of_all(listings, known)
    if options.write_baseline is not None:
        write_text(options.write_baseline, json.dumps(baseline_document(findings), indent=1) + "\n")
    new = findings if accepted is None else beyond(findings, accepted)
    if len(new) < len(findings):
        complain(f"{len(findings) - len(new)} findings that {options.baseline} accepts are left out")
    report = LintReport(str(options.file), listings, new, round(time.perf_counter() - began, 3))
    _write(options, report)
    print_result(options, findings_document(report), findings_text(report))
    return 1 if report.is_wrong or (options.strict and report.has_unknown) else 0


def _write(options: argparse.Namespace, report: LintReport) -> None:
    if options.sarif is not None:
        from wavesim.lint.report_sarif import sarif_log

        write_text(options.sarif, json.dumps(sarif_log(report), indent=1))
    if options.html is not None:
        from wavesim.view.findings_page import write_findings

        write_findings(options.html, report)
        complain(f"{options.html}: the page, complete in one file")


def _listings(options: argparse.Namespace) -> Sequence[Listing]:
    """What there is to judge. Raises `DescriptionError` where the options leave nothing."""
    kernels = _pattern(options.kernel)
    archs = listed("arch", options.arch) if options.arch is not None else []
    listings: Sequence[Listing]
    if options.file.suffix == SUFFIX:
        listings = list(_compiled(options, archs or [DEFAULT_ARCH], kernels))
    else:
        for name in ("instance", "include", "define"):
            if getattr(options, name):
                raise DescriptionError(
                    f"--{name} is of CUDA C++ ({SUFFIX}); leave it out for {options.file.name}"
                )
        listings = listings_of(options.file, kernels)
        if archs:
            listings = _of_archs(options, listings, archs)
    return _with_kernels(options, listings)


def _pattern(text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        return re.compile(bounded_text("kernel", text))
    except (re.error, OverflowError, RecursionError) as error:
        raise DescriptionError(
            f"kernel is {shown(text)}, no regular expression ({error}); write one"
        ) from None


def _compiled(
    options: argparse.Namespace, archs: Sequence[str], kernels: re.Pattern[str] | None
) -> Iterator[Listing]:
    for arch in archs:
        more = (options.instance or (), options.include or (), options.compile_seconds)
        ptx, cubin = compiled(options.file, arch, *more, _macros(options.define or ()))
        with tempfile.TemporaryDirectory() as folder:
            for name, data in (("code.ptx", ptx.encode()), ("code.cubin", cubin)):
                if data:
                    for listing in listings_of(write_bytes(Path(folder) / name, data), kernels):
                        words = "machine code" if listing.language == "sass" else "PTX"
                        yield replace(listing, where=f"{options.file.name}, {words} for {arch}")


def _macros(words: Sequence[str]) -> Sequence[str]:
    for word in words:
        if not re.match(r"[A-Za-z_]\w*(=|$)", bounded_text("define", word)):
            raise DescriptionError(f"define is {shown(word)}, no macro; write NAME or NAME=VALUE")
    return words


def _of_archs(
    options: argparse.Namespace, listings: Sequence[Listing], archs: Sequence[str]
) -> Sequence[Listing]:
    there = list(dict.fromkeys(listing.arch for listing in listings))
    for arch in archs:
        if arch not in there:
            raise DescriptionError(
                f"arch is {shown(arch)}; {options.file.name} has {', '.join(there) or 'none'}"
            )
    return [listing for listing in listings if listing.arch in archs]


def _with_kernels(options: argparse.Namespace, listings: Sequence[Listing]) -> Sequence[Listing]:
    if any(listing.kernels or listing.notes for listing in listings):
        return listings
    if options.kernel is not None:
        raise DescriptionError(
            f"kernel is {shown(options.kernel)}; no kernel of {options.file.name} has such a name"
        )
    hint = " (name template instances by --instance)" if options.file.suffix == SUFFIX else ""
    raise DescriptionError(f"{options.file}: no kernel in it{hint}; give a file with one")


def _known(options: argparse.Namespace, listings: Sequence[Listing]) -> Known:
    """What the user says of parameters. Raises `DescriptionError` for one that no kernel has."""
    said = {name: _parameters(f"--{name}", getattr(options, name), listings) for name in SAID}
    launched = frozenset({"*"} if options.launched_dependent else ())
    return Known(said["produced"], said["constant"], said["remote"], said["flag"], launched)


def _parameters(option: str, text: str | None, listings: Sequence[Listing]) -> frozenset[str]:
    if text is None:
        return frozenset()
    names = {f"{code.name}_param_": code.name for listing in listings for code in listing.kernels}
    words = [_numbered(word, names) for word in listed(option, text)]
    for word in words:
        kernel, _, name = word.rpartition(":")
        kernels = [code for listing in listings for code in listing.kernels if kernel in ("", code.name)]
        if not kernels:
            raise DescriptionError(
                f"{option} is {shown(text)}; there is no kernel {shown(kernel)} in the file"
            )
        _require_there(option, name.partition("+")[0], kernels)
    return frozenset(words)


def _numbered(word: str, names: Mapping[str, str]) -> str:
    """A parameter by its number, where PTX's own name of it is given: `k_param_0` is `k:0`."""
    start = word.rstrip("0123456789")
    return f"{names[start]}:{word[len(start) :]}" if start in names and start != word else word


def _require_there(option: str, name: str, kernels: Sequence[KernelCode]) -> None:
    """Raises `DescriptionError` unless a kernel has a parameter of that number, or names that variable."""
    most = max(len(kernel.parameters) for kernel in kernels)
    if is_plain(name):
        if int(name) >= most > 0:
            raise DescriptionError(
                f"{option} is {shown(name)}; there are {most} parameters, 0 to {most - 1}: name one of them"
            )
    elif not any(name in instruction.symbols for kernel in kernels for instruction in kernel.instructions):
        raise DescriptionError(
            f"{option} is {shown(name)}, neither a parameter's number nor a variable that the kernels name"
        )
