"""A Dask cluster as an executor, by the address of its scheduler. `distributed` is an optional package.

Example: `with dask_pool("tcp://10.0.0.5:8786") as pool: tune(pipeline, device, executor=pool)` simulates on
the cluster's workers. Dask gives the work of a worker that dies to another; the pool says which died. Workers
whose wavesim is other code get no work. Where the scheduler or the last worker is gone, what has no answer is
told at once, so that whoever asked can do it here.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import contextmanager, suppress
from typing import Any, ParamSpec, TypeVar

from wavesim.errors import DescriptionError, DeviceError
from wavesim.safe_io.bounds import bounded_text, shown
from wavesim.safe_io.escaping import one_line
from wavesim.tuning.same_code import code_identity

CONNECT_S = 8  # for each step of connecting; all of them take less than 10 s where nobody answers
LOOK_S, GONE_S = 0.5, 3  # how often the cluster is looked at, and how long no worker may be heard of
CLOSE_S = 2
LOGGERS = ("distributed", "asyncio", "tornado")
LOST: list[Any] = []  # clients whose scheduler was gone
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class OtherCodeError(Exception):
    """A worker's code is not that of whoever asks it."""


def checked(identity: str, work: Callable[..., Result], args: Any, kwargs: Any) -> Result:
    """Runs in a worker, where its code is the one that is named. Raises `OtherCodeError`."""
    if code_identity() != identity:
        raise OtherCodeError(code_identity())
    return work(*args, **kwargs)


class DaskPool(Executor):
    """The executor of a connected client. It breaks (`BrokenExecutor`) where the cluster is gone."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._seen = set(self._workers())
        self._others = _other_code(client, self._seen)
        self._good = sorted(self._seen - self._others.keys())
        self._lock = threading.Lock()
        self._open: set[Future[Any]] = set()
        self._why_ended = ""
        self._is_over = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def why_useless(self) -> str:
        """Why no worker can be given work, or nothing."""
        if self._good:
            return ""
        reasons = dict.fromkeys(self._others.values())
        return "; ".join(reasons) if reasons else "it has no workers; start one"

    def submit(
        self, fn: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Future[Result]:
        """Gives a call to the workers that had our code when the pool was made."""
        future: Future[Result] = Future()
        with self._lock:
            if not self._why_ended:
                self._open.add(future)
        if self._why_ended:
            future.set_exception(BrokenExecutor(self._why_ended))
            return future
        chosen = {"workers": self._good, "allow_other_workers": False} if self._others else {}
        remote = self._client.submit(checked, code_identity(), fn, args, kwargs, pure=False, **chosen)
        remote.add_done_callback(lambda ended: self._hand_over(ended, future))
        return future

    def _hand_over(self, remote: Any, future: Future[Any]) -> None:
        try:
            error, result = remote.exception(timeout=GONE_S), None
            if error is None:
                result = remote.result(timeout=GONE_S)
        except (Exception, CancelledError) as failure:  # noqa: BLE001  # of Dask without its scheduler
            error = BrokenExecutor(one_line(str(failure) or type(failure).__name__))
        if isinstance(error, OtherCodeError | ImportError | AttributeError):
            error = BrokenExecutor(f"a Dask worker has other code: {one_line(str(error))}")
        self._settle(future, result, error)

    def _settle(self, future: Future[Any], result: Any, error: BaseException | None) -> None:
        with self._lock:
            is_open = future in self._open
            self._open.discard(future)
        if is_open and future.set_running_or_notify_cancel():
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

    def lost_workers(self) -> list[str]:
        """Addresses of workers that were there and are not any more, or that got no work, and why."""
        left_out = [f"{name} (left out: {why})" for name, why in sorted(self._others.items())]
        if self._why_ended:  # and was said with what was submitted
            return left_out
        with suppress(Exception):
            now = self._workers()
            lost, self._seen = sorted(self._seen - now.keys() - self._others.keys()), set(now)
            return lost + left_out
        return left_out

    def stop(self) -> None:
        """Ends the watch and what is still open."""
        self._break("the cluster was let go")

    def _watch(self) -> None:
        """Breaks the pool where nothing of use has been heard for a while."""
        last, beat, why = time.monotonic(), 0.0, ""
        while not self._is_over.wait(LOOK_S):
            try:
                there = [info for name, info in self._workers().items() if name not in self._others]
                why = "the last Dask worker is gone or stands still"
                if (seen := max((info["last_seen"] for info in there), default=beat)) != beat:
                    beat, why = seen, ""
            except Exception as error:  # noqa: BLE001  # Dask's, tornado's, asyncio's
                why = f"the Dask scheduler does not answer any more ({one_line(type(error).__name__)})"
            if not why:
                last = time.monotonic()
            elif time.monotonic() - last > GONE_S:
                LOST.append(self._client)
                self._break(why)

    def _break(self, why: str) -> None:
        with self._lock:
            self._why_ended = self._why_ended or why
            left = list(self._open)
        self._is_over.set()
        for future in left:
            self._settle(future, None, BrokenExecutor(why))

    def _workers(self) -> dict[str, Any]:
        info = self._client.sync(self._client.scheduler.identity, n_workers=-1, callback_timeout=GONE_S)
        return dict(info.get("workers", {}))


def _other_code(client: Any, workers: set[str]) -> dict[str, str]:
    """Why a worker is given no work, by its address: its code or its Python is not ours."""
    if not workers:
        return {}
    mine = code_identity()
    try:
        answers = _within(CONNECT_S, lambda: client.run(code_identity, on_error="return"))
    except (TimeoutError, OSError):
        answers = {}
    silent = OtherCodeError("it does not answer")
    return {
        name: f"it has {one_line(str(answer))}, this is {mine}"
        for name in workers
        if (answer := answers.get(name, silent)) != mine
    }


def _within(seconds: float, call: Callable[[], Result]) -> Result:
    """The call's result, or what it raised. Raises `TimeoutError` where it takes longer; it goes on then."""
    outcome: Future[Result] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except (Exception, CancelledError) as error:  # noqa: BLE001  # a stranger's answer leads to any
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome.result(timeout=seconds)


def _require_answer(address: str) -> None:
    """Raises where no Dask server greets: another's bytes, or silence, would keep a client busy."""
    import asyncio  # noqa: PLC0415  # with the optional package only

    from distributed import comm  # noqa: PLC0415

    module: Any = comm  # Dask has no types

    async def greet() -> None:
        (await asyncio.wait_for(module.connect(address, timeout=CONNECT_S), CONNECT_S)).abort()

    _within(CONNECT_S + 1, lambda: asyncio.run(greet()))


@contextmanager
def _quiet() -> Iterator[None]:
    """Dask logs what is said in a line of ours, with tracebacks."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        if not LOST:  # whose threads go on looking for their scheduler, and say so
            for logger, level in zip(loggers, before, strict=True):
                logger.setLevel(level)


def _connected(address: str) -> Any:
    """A client. Raises `DeviceError`: the package is missing, or nobody answers."""
    try:
        from distributed import Client  # noqa: PLC0415  # an optional package
    except ImportError:
        raise DeviceError("--dask needs the package distributed: pip install distributed") from None
    try:
        _require_answer(address)
        connect: Any = Client  # Dask has no types
        return _within(CONNECT_S, lambda: connect(address, timeout=CONNECT_S, set_as_default=False))
    except (Exception, CancelledError) as error:  # noqa: BLE001  # of sockets, parsers, a stranger's answer
        reason = one_line(str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise DeviceError(
            f"no Dask scheduler answers at {shown(address)} ({reason}); start one with `dask scheduler`"
        ) from None


@contextmanager
def dask_pool(address: str) -> Iterator[DaskPool]:
    """The cluster of the scheduler at an address such as "tcp://10.0.0.5:8786", closed at the end.

    Raises `DescriptionError` for what is no address, `DeviceError` where `distributed` is not installed,
    nobody answers within 10 s, or there is no worker with our code.
    """
    if ":" not in bounded_text("dask", address) or not address.isprintable():
        raise DescriptionError(
            f"dask is {shown(address)}; write the scheduler's address, such as tcp://HOST:8786"
        )
    with _quiet():
        client = _connected(address)
        try:
            pool = DaskPool(client)
            try:
                if pool.why_useless:
                    raise DeviceError(f"the cluster at {shown(address)} is of no use: {pool.why_useless}")
                yield pool
            finally:
                pool.stop()
        finally:
            with suppress(Exception):
                _within(CLOSE_S + 1, lambda: client.close(timeout=CLOSE_S))
