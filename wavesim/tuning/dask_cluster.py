"""A Dask cluster as an executor, by the address of its scheduler. `distributed` is an optional package.

Example: `with dask_pool("tcp://10.0.0.5:8786") as pool: tune(pipeline, device, executor=pool)` simulates on
the cluster's workers. Dask gives the work of a worker that dies to another; the pool says which died.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from typing import Any, ParamSpec, TypeVar

from wavesim.errors import DescriptionError, DeviceError
from wavesim.safe_io.bounds import bounded_text, shown
from wavesim.safe_io.escaping import one_line

CONNECT_S = 10
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class DaskPool(Executor):
    """The executor of a connected client, which is left open. The workers seen so far are kept by name."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._executor: Executor = client.get_executor(pure=False)
        self._seen = self._workers()

    def submit(
        self, fn: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Future[Result]:
        """Gives a call to the cluster."""
        return self._executor.submit(fn, *args, **kwargs)

    def lost_workers(self) -> list[str]:
        """Addresses of workers that were there and are not any more."""
        now = self._workers()
        lost, self._seen = sorted(self._seen - now), now
        return lost

    def _workers(self) -> set[str]:
        with suppress(OSError):  # a scheduler that has ended says so with what was submitted
            return set(self._client.scheduler_info(n_workers=-1)["workers"])
        return set()


@contextmanager
def dask_pool(address: str) -> Iterator[DaskPool]:
    """The cluster of the scheduler at an address such as "tcp://10.0.0.5:8786", closed at the end.

    Raises `DescriptionError` for what is no address, `DeviceError` where `distributed` is not installed,
    nobody answers within 10 s, or there is no worker.
    """
    if ":" not in bounded_text("dask", address) or not address.isprintable():
        raise DescriptionError(
            f"dask is {shown(address)}; write the scheduler's address, such as tcp://HOST:8786"
        )
    try:
        from distributed import Client  # noqa: PLC0415  # an optional package
    except ImportError:
        raise DeviceError("--dask needs the package distributed: pip install distributed") from None
    try:
        connect: Any = Client  # Dask has no types
        client = connect(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = one_line(str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise DeviceError(
            f"no Dask scheduler answers at {shown(address)} ({reason}); start one with `dask scheduler`"
        ) from None
    with client:
        pool = DaskPool(client)
        if not client.scheduler_info(n_workers=-1)["workers"]:
            raise DeviceError(f"the cluster at {shown(address)} has no workers; start one")
        yield pool
