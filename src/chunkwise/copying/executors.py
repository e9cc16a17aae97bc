"""Executors: threads of this process, processes of this machine, a Dask cluster, or the caller's own."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from chunkwise.copying.tasks import BATCH_SECONDS
from chunkwise.core.base.extras import load
from chunkwise.core.base.limits import memory_limit, n_dask_threads, n_processors
from chunkwise.core.base.threads import new_lock, start_thread, until_done
from chunkwise.core.engine.concurrent_requests import n_block_threads
from chunkwise.errors import InvalidArgumentError, UnavailableError

__all__ = [
    "BlockThreads",
    "OpenExecutor",
    "Room",
    "TaskCounts",
    "Workers",
    "named_workers",
    "processes_here",
    "room_of",
    "threads_here",
    "workers_of",
]

T = TypeVar("T")


class BlockThreads(Executor):
    """Threads of this process; the caller does the work if no thread can be started."""

    def __init__(self, max_workers: int) -> None:
        self._max_workers = max_workers
        self._queue: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._lock = new_lock()
        self._n_threads = 0

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call `fn` in one of the threads."""
        future: Future[T] = Future()
        work = future, lambda: fn(*args, **kwargs)
        with self._lock:
            if self._n_threads < self._max_workers and start_thread(self._serve):
                self._n_threads += 1
        if self._n_threads:
            self._queue.put(work)
        else:
            _do(*work)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the threads end when they have done what was submitted, without waiting for them."""
        for _ in range(self._n_threads):
            self._queue.put(None)

    def _serve(self) -> None:
        while (work := self._queue.get()) is not None:
            _do(*work)
            del work  # otherwise its arrays would live until there is other work


def _do(future: Future[Any], work: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as e:
        until_done(future.set_exception, e)
    else:
        future.set_result(result)


class OpenExecutor(NamedTuple):
    """An executor, and a function that replaces it if it is broken."""

    executor: Executor
    renew: Callable[[], Executor] | None = None


@dataclass
class TaskCounts:
    """Number of tasks, for a display; that of later stages may be unknown yet."""

    n_done: int = 0
    n_begun: int = 0  # of stages that have begun
    n_expected: int = 0

    @property
    def n_tasks(self) -> int:
        """Number of tasks, as far as known."""
        return max(self.n_begun, self.n_expected)


@dataclass(frozen=True)
class Workers:
    """Workers: how to reach them, their number, and what each may use."""

    open: Callable[[], AbstractContextManager[OpenExecutor]]
    n_workers: int
    n_at_once: int = 1  # tasks at the same time in one process
    memory: int | None = None  # of one process, where it is known
    batch_seconds: float = BATCH_SECONDS
    task_counts: TaskCounts = field(default_factory=TaskCounts, compare=False)
    unasked: bool = False  # whether they are the default: threads of this process
    in_process: bool = False


def threads_here(n: int | None = None) -> Workers:
    """Return threads of this process, by default as many as the library uses for blocks."""
    unasked = n is None
    n = n_block_threads() if n is None else n

    @contextmanager
    def start() -> Iterator[OpenExecutor]:
        # In a Dask worker with one thread, the task's thread does the work.
        executor = BlockThreads(0 if n == n_dask_threads() == 1 else n)
        try:
            yield OpenExecutor(executor)
        finally:
            executor.shutdown()

    return Workers(start, n, n, batch_seconds=0.0, unasked=unasked, in_process=True)


def processes_here(n: int) -> Workers:
    """Return processes of this machine; one that is lost is started again."""
    import multiprocessing  # which takes long to load
    from concurrent.futures import ProcessPoolExecutor

    @contextmanager
    def start() -> Iterator[OpenExecutor]:
        opened: list[Executor] = []

        def renew() -> Executor:
            context = multiprocessing.get_context("spawn")
            opened.append(ProcessPoolExecutor(n, mp_context=context, initializer=_end_with_parent))
            return opened[-1]

        try:
            yield OpenExecutor(renew(), renew)
        finally:
            for executor in opened:
                executor.shutdown(wait=False, cancel_futures=True)

    return Workers(start, n, memory=memory_limit() // 4 // n)


def _end_with_parent() -> None:
    """End this process when its parent is killed; otherwise it would wait for tasks forever."""
    from multiprocessing import parent_process

    parent = parent_process()

    def wait() -> None:
        assert parent is not None, "it was started by another"
        parent.join()
        os._exit(1)

    if parent is not None:
        start_thread(wait)


def workers_of(executor: Executor | Workers | str | None) -> Workers:
    """Return the workers of the caller's executor, which stays open; by default threads of this process.

    Text names workers, as for `named_workers`.
    """
    if executor is None:
        return threads_here()
    if isinstance(executor, Workers):
        return executor
    if isinstance(executor, str):
        return named_workers(executor, "executor")
    if callable(getattr(executor, "get_executor", None)):
        raise InvalidArgumentError("executor: a Dask client has one: client.get_executor()")
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise InvalidArgumentError(
            'executor: expected a concurrent.futures.Executor, "threads:N", "processes:N" or the address of '
            f"a Dask scheduler, not {executor!r}"
        )

    @contextmanager
    def start() -> Iterator[OpenExecutor]:
        yield OpenExecutor(executor)

    client = getattr(executor, "_client", None)
    if client is not None and hasattr(client, "nthreads"):  # of Dask
        return _of_dask(client, start)
    counts = (getattr(executor, name, None) for name in ("_max_workers", "max_workers"))
    n = next((n for n in counts if isinstance(n, int) and n > 0), n_processors())
    from concurrent.futures import ThreadPoolExecutor

    in_process = isinstance(executor, ThreadPoolExecutor | BlockThreads)
    return Workers(start, n, n, batch_seconds=1.0, in_process=True) if in_process else Workers(start, n)


def _of_dask(client: Any, start: Callable[[], AbstractContextManager[OpenExecutor]]) -> Workers:
    found = client.scheduler_info(n_workers=-1)["workers"].values()
    threads = [int(worker["nthreads"]) for worker in found]
    limits = [int(worker["memory_limit"]) for worker in found if worker.get("memory_limit")]
    memory = min(limits) // 4 if limits else None
    return Workers(start, max(1, sum(threads)), max(threads, default=1), memory)


def named_workers(text: str, option: str = "--on") -> Workers:
    """Return what ``threads:N``, ``processes:N`` or the address of a Dask scheduler names.

    Raises
    ------
    InvalidArgumentError
        If it is none of these.
    UnavailableError
        If no scheduler answers.
    """
    kind, _, number = text.partition(":")
    if kind in ("threads", "processes"):
        if not number.isdecimal() or not int(number):
            raise InvalidArgumentError(
                f"{option}: expected {kind}:N, where N is a number from 1, but received {text!r}"
            )
        return threads_here(int(number)) if kind == "threads" else processes_here(int(number))
    if "://" not in text:
        raise InvalidArgumentError(
            f"{option}: expected threads:N, processes:N or the address of a Dask scheduler such as "
            f"tcp://host:8786, but received {text!r}"
        )
    return _at_scheduler(text)


def _at_scheduler(address: str) -> Workers:
    """Return the workers of a Dask scheduler, with a connection while there is work."""
    distributed = load("distributed", "--on with the address of a scheduler")

    def connect() -> Any:
        try:
            client = distributed.Client(address, timeout="10s", set_as_default=False)
            if not client.nthreads():
                client.wait_for_workers(1, timeout=60)
        except (OSError, TimeoutError) as e:
            raise UnavailableError(f"no Dask scheduler with workers answers at {address}: {e}") from None
        return client

    @contextmanager
    def start() -> Iterator[OpenExecutor]:
        with connect() as client:
            yield OpenExecutor(client.get_executor())

    with connect() as client:
        return _of_dask(client, start)


class Room(NamedTuple):
    """Resources of a worker process for a copy.

    Attributes
    ----------
    memory : int
        Bytes.
    n_at_once : int
        Tasks that it runs at the same time.
    is_limit : bool
        Whether a chunk that takes more memory is an error.
    """

    memory: int
    n_at_once: int
    is_limit: bool


def room_of(workers: Workers, memory: int | None) -> Room:
    """Return the resources of each worker; `memory` is the wanted limit, if any."""
    default = workers.memory or memory_limit() // 4
    return Room(default if memory is None else memory, workers.n_at_once, memory is not None)
