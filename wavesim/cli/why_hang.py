"""`wavesim why-hang`: whether launches can hang, or why they do: who holds which SM, who waits for whom.

Example: `wavesim why-hang launches.json --mirror /dev/shm/wavesim-4711 --html hang.html` explains a hang;
`wavesim why-hang plan.toml` asks before the launch. `docs/why-hang.md` has the file's fields.
"""

import argparse
from itertools import chain
from pathlib import Path
from textwrap import wrap

from wavesim.cli.printing import complain, print_result
from wavesim.cli.shared_options import add_moved, add_shared
from wavesim.safe_io.escaping import WIDTH, whole_line
from wavesim.safe_io.writing import require_writable, write_text


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "file",
        type=Path,
        nargs="?",
        help="launches and waits: TOML, a launch recorder's JSON, a mirror with both, a profile, text of "
        "cuda-gdb (info cuda ...), NCCL's flight recorder; left out where --mirror has the launches, too",
    )
    parser.add_argument(
        "--mirror", type=Path, help="the semaphores of the process that hangs, or hung, as it mirrored them"
    )
    parser.add_argument(
        "--waits", type=Path, metavar="FILE.toml", help="who waits for whom, for a profile: [[waits]] tables"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE.json",
        help="write launches and waits as they were read, to be edited",
    )
    add_moved(parser, "--save", "--out", type=Path)
    add_shared(parser, "--html", html="write the answer with its pictures to this page")


def run(options: argparse.Namespace) -> int:
    """Reads the situation, judges it and says why; status 1 where it hangs or can."""
    from wavesim.profile.situations import read_files, verdict_of
    from wavesim.safety.hang.answer import HangAnswer

    require_writable(options.out, options.html)
    situation, mirror = read_files(options.file, options.mirror, options.waits)
    answer = HangAnswer(verdict_of(situation, mirror))
    if options.out:
        from wavesim.safety.hang.situation_file import situation_json

        write_text(options.out, situation_json(situation))
        complain(f"{options.out}: launches and waits as they were read, to be edited")
    if options.html:
        from wavesim.view.hang_picture import write_hang_page

        write_hang_page(options.html, answer)
        complain(f"{options.html}: the page, complete in one file")
    shown = (wrap(whole_line(line), WIDTH, subsequent_indent=" " * 4) for line in answer.lines)
    print_result(options, answer.as_json(), "\n".join(chain.from_iterable(shown)))
    return int(answer.verdict.can_hang is True)
