"""How the work of a read or write of a stack is divided among threads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import Any, TypeAlias

from chunkwise.array.based import Base
from chunkwise.array.layer_sites import FILES, FileSite
from chunkwise.array.site_reader import SiteReader
from chunkwise.array.stack_layer import StackLayers
from chunkwise.execute.coroutine import in_event_loop
from chunkwise.execute.future import Future
from chunkwise.execute.join import gather, map_future
from chunkwise.execute.pool import Pool, Stop
from chunkwise.execute.workers import read_load
from chunkwise.plan.stack_part import StackPart

__all__ = ["run_parts"]

Do: TypeAlias = Callable[["Base | None", StackPart], Future[Any]]
"""Reads or writes a part of a layer that was opened for it, or, with None, of a hole."""

_FEW = 64
_FEW_COPIES = 200
_SMALL_NBYTES = 1 << 20
_LEAST_NBYTES = 512 << 10
_N_WAITING = 32


def run_parts(
    parts: Sequence[StackPart],
    do: Do,
    finish: Callable[[], Any],
    *,
    layers: StackLayers,
    nbytes: int,
    pool: Pool,
    write: bool,
    open_sites: Callable[[], SiteReader] | None = None,
) -> Future[Any]:
    """Read or write the parts of a request; the future gives what `finish` returns.

    Parameters
    ----------
    parts : sequence of StackPart
    do : callable
    finish : callable
        Called once, at the end.
    layers : StackLayers
    nbytes : int
        Of the request.
    pool : Pool
    write : bool
        What layers are to be opened for.
    open_sites : callable, optional
        Gives one worker what reads layers that need not be opened.
    """
    groups: dict[int, list[StackPart]] = {}
    for part in parts:
        groups.setdefault(part.layer, []).append(part)
    waits = any(part.indexed for part in parts) and in_event_loop()
    n_workers = _n_workers(groups, layers, nbytes, pool)
    sites, inline = None, False
    if open_sites is not None:
        sites = open_sites()
        if n_workers is not None and n_workers != _N_WAITING:
            n_workers, inline = _load(sites, list(groups), n_workers, pool)
    small = inline or nbytes < _LEAST_NBYTES
    if (n_workers is None or inline) and not waits:
        futures = []
        for number, group in groups.items():
            if sites is not None and small and sites.read(number, group):
                continue
            started = None if sites is None or small else sites.start(number, group)
            if started is not None:
                futures += started
                continue
            base = layers.opened(number, write=write)
            futures += [do(base, part) for part in group]
        return map_future(lambda _: finish(), gather(futures))

    def open_worker(stop: Stop) -> Callable[[tuple[int, list[StackPart]]], None]:
        sites = None if open_sites is None else open_sites()

        def work(item: tuple[int, list[StackPart]]) -> None:
            number, group = item
            if stop or (sites is not None and sites.read(number, group)):
                return
            base = layers.opened(number, write=write)
            for part in group:
                do(base, part).result()

        return work

    return pool.run(list(groups.items()), open_worker, finish, n_workers=n_workers or pool.n_workers)


def _n_workers(numbers: Collection[int], layers: StackLayers, nbytes: int, pool: Pool) -> int | None:
    """Return how many threads are to take one layer after the other; None if these are read as they are.

    A layer that is read as it is divides its own work among threads.  Of small layers each would be
    read by the calling thread alone; and of very many not all are to be open.
    """
    n = len(numbers)
    local = all(layers.is_local(number) for number in islice(numbers, 4))
    if n > _FEW:
        return pool.n_workers if local else _N_WAITING
    small = _LEAST_NBYTES <= nbytes <= n * _SMALL_NBYTES
    return pool.n_workers if n > 1 and local and small else None


def _load(sites: SiteReader, numbers: Sequence[int], n_workers: int, pool: Pool) -> tuple[int, bool]:
    """Return how many threads are to take local layers, and whether the caller is to, instead of any.

    More threads than one are slower if chunks are small; the first, the last and one between tell.
    """
    most, inline = 1, True
    for i in (0, len(numbers) // 2, -1):
        site = sites.site(numbers[i])
        if isinstance(site, FileSite):
            load = read_load(pool, FILES, site.array.chain, len(numbers))
            most, inline = max(most, load.n_workers), inline and load.inline
        elif site is not None:
            inline = inline and len(numbers) <= _FEW_COPIES
        else:
            return n_workers, False
    return most, inline
