"""`--dask ADDRESS`: simulate on the workers of a Dask cluster instead of this machine's cores."""

import argparse
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext


def add_dask_option(parser: argparse.ArgumentParser) -> None:
    """The option."""
    parser.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="simulate on the Dask cluster of this scheduler, such as tcp://HOST:8786",
    )


def chosen_executor(options: argparse.Namespace) -> AbstractContextManager[Executor | None]:
    """The cluster, or nothing, which means this machine. Raises `DescriptionError` or `DeviceError`."""
    if options.dask is None:
        return nullcontext()
    from wavesim.tuning.dask_cluster import dask_pool  # only where it is asked for

    return dask_pool(options.dask)
