"""`wavesim model`: the time of a model's layer and of a pass, where it goes, and what overlap changes.

Example: `wavesim model llama-3-8b --tokens 1024 --html page.html` simulates a layer under stream sync,
dependent launch, and row and tile semaphores, and draws a stacked bar for each.
"""

import argparse

from wavesim.cli.printing import print_result
from wavesim.cli.shared_options import add_rows, add_shared
from wavesim.model import device as devices
from wavesim.safe_io.bounds import listed
from wavesim.safe_io.options import integer
from wavesim.safe_io.writing import require_writable


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    from wavesim.model_time.model_pass import CHAINED_WAY, WAYS
    from wavesim.workloads.models import layered_models

    parser.add_argument("model", help=", ".join(layered_models()))
    add_rows(parser, "rows of a prompt, or sequences in decode (1024; 1)", dest="tokens", type=integer)
    parser.add_argument("--decode", action="store_true", help="one token of each sequence, not a prompt")
    parser.add_argument("--cached", type=integer, help="with --decode: keys in each cache (2047)")
    parser.add_argument("--tp", type=integer, help="GPUs that share the layer; the model's usual number")
    parser.add_argument("--device", help=", ".join(devices.names()))
    parser.add_argument(
        "--sync",
        default=",".join((*WAYS, CHAINED_WAY)),
        help="plans, the first the baseline; chained+PLAN: products that leave their SMs as they end",
    )
    add_shared(parser, "--html")


def run(options: argparse.Namespace) -> int:
    """Simulates, prints the table, writes the page if asked."""
    from wavesim.errors import DescriptionError
    from wavesim.model_time.model_pass import pass_of
    from wavesim.model_time.report import pass_data, pass_text, write_pass_page
    from wavesim.workloads.catalogue import CACHED

    require_writable(options.html)
    if options.cached is not None and not options.decode:
        raise DescriptionError("--cached is of --decode: a prompt begins with an empty cache; leave it out")
    device = devices.default_device() if options.device is None else devices.load(options.device)
    cached = CACHED if options.cached is None else options.cached
    usual = 1 if options.decode else 1024
    model_pass = pass_of(
        options.model,
        device,
        usual if options.tokens is None else options.tokens,
        phase="decode" if options.decode else "prefill",
        cached=cached if options.decode else 0,
        tp=options.tp,
        ways=listed("sync", options.sync),
    )
    if options.html:
        write_pass_page(model_pass, options.html)
    print_result(options, pass_data(model_pass), pass_text(model_pass))
    return 0
