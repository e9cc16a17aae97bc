"""How the work of a read or write of a stack is divided among threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, TypeAlias

from chunkwise.arrays.based import Base
from chunkwise.arrays.layer_sites import FileSite
from chunkwise.arrays.site_reader import SiteReader
from chunkwise.arrays.stack_layer import StackLayers
from chunkwise.codec.protocol import PreparedChain
from chunkwise.engine.coroutine import in_event_loop
from chunkwise.engine.future import Future
from chunkwise.engine.join import gather, map_future
from chunkwise.engine.pool import Pool, Stop
from chunkwise.engine.requests import ChunkRequests
from chunkwise.engine.strategy import STAGING_NBYTES, ReadStrategy, read_strategy
from chunkwise.plan.stack_part import Leaf, StackPart, StackParts

__all__ = ["run_parts"]

Do: TypeAlias = Callable[["Base | None", StackPart], Future[Any]]
"""Reads or writes a part of a layer that was opened for it, or, with None, of a hole."""

Groups: TypeAlias = dict[int, list[StackPart]]
"""Parts by layer."""

Many: TypeAlias = tuple[StackParts, range]
"""Parts that have bounds, and which of them."""

Chunks: TypeAlias = tuple[Leaf, ChunkRequests]
"""Requests of a leaf, each in one chunk."""

_FEW = 64
_FEW_COPIES = 200
_SMALL_NBYTES = 1 << 20
_LEAST_NBYTES = 512 << 10
_N_WAITING = 32
_MOST_AT_ONCE = 256
_MOST_ALONE = 2048
_BATCHES_PER_WORKER = 4


def run_parts(
    plan: Iterable[StackPart | StackParts],
    do: Do,
    *,
    layers: StackLayers,
    nbytes: int,
    pool: Pool,
    write: bool,
    finish: Callable[[], Any] = lambda: None,
    open_sites: Callable[[Stop], SiteReader] | None = None,
) -> Future[Any]:
    """Read or write the parts of a request; the future gives what `finish` returns.

    Parameters
    ----------
    plan : iterable of StackPart and StackParts
    do : callable
    layers : StackLayers
    nbytes : int
        Of the request.
    pool : Pool
    write : bool
        What layers are to be opened for.
    finish : callable
        Called once, at the end.
    open_sites : callable, optional
        Gives one worker what reads layers that need not be opened.
    """
    groups: Groups = {}
    many: list[Many] = []
    for found in plan:
        if isinstance(found, StackPart):
            _put(groups, [found])
            continue
        rows = range(len(found.layers))
        if open_sites is None or found.bounds is None:
            _put(groups, found.parts(rows))
        else:
            many.append((found, rows))
    waits = any(part.indexed for group in groups.values() for part in group) and in_event_loop()
    if len(many) == 1 and not groups:
        numbers = many[0][0].layer_numbers
    else:
        numbers = list(dict.fromkeys(chain(groups, *(parts.layer_numbers for parts, _ in many))))
    n_workers = _n_workers(numbers, layers, nbytes, pool)
    sites, inline = None, False
    if open_sites is not None:
        sites = open_sites([])
        if n_workers is not None and n_workers != _N_WAITING:
            n_workers, inline = _load(sites, numbers, n_workers, nbytes, pool)
    small = inline or nbytes < _LEAST_NBYTES
    chunks: list[Chunks] = []
    if n_workers == _N_WAITING or not (inline or small or n_workers):
        for parts, rows in many:  # each for itself, since it takes long
            left: Sequence[int] = rows
            if sites is not None and not (n_workers or waits):
                found_chunks, left = sites.chunks(parts, rows)
                chunks += [(parts.leaf, some) for some in found_chunks]
            _put(groups, parts.parts(left))
        many = []

    if (n_workers is None or inline) and not waits:
        to_open: Groups = {}
        for parts, rows in many:
            assert sites is not None
            _put(to_open, parts.parts(sites.read_many(parts, rows)))
        futures: list[Future[Any]] = []
        if chunks and open_sites is not None:
            futures.append(_run_chunks(chunks, open_sites, pool))
        for number, group in groups.items():
            if sites is not None and small and sites.read(number, group):
                continue
            started = None if sites is None or small else sites.start(number, group)
            if started is None:
                _put(to_open, group)
            else:
                futures += started
        for number, group in to_open.items():
            base = layers.opened(number, write=write)
            futures += [do(base, part) for part in group]
        return map_future(lambda _: finish(), gather(futures))

    n_workers = n_workers or pool.n_workers
    items: list[Many | tuple[int, list[StackPart]]] = [*groups.items()]
    for parts, rows in many:
        n = _MOST_ALONE
        if n_workers > 1:
            n = max(1, min(_MOST_AT_ONCE, len(rows) // (_BATCHES_PER_WORKER * n_workers)))
        items += [(parts, rows[i : i + n]) for i in range(0, len(rows), n)]

    def open_worker(stop: Stop) -> Callable[[Many | tuple[int, list[StackPart]]], None]:
        sites = None if open_sites is None else open_sites(stop)

        def work(item: Many | tuple[int, list[StackPart]]) -> None:
            to_open: Groups = {}
            if isinstance(item[0], StackParts):
                assert sites is not None
                _put(to_open, item[0].parts(sites.read_many(item[0], item[1])))
            elif not stop and (sites is None or not sites.read(*item)):
                _put(to_open, item[1])
            for number, group in to_open.items():
                if stop:
                    return
                base = layers.opened(number, write=write)
                for part in group:
                    do(base, part).result()

        return work

    return pool.run(items, open_worker, finish, n_workers=n_workers)


def _run_chunks(
    chunks: Sequence[Chunks], open_sites: Callable[[Stop], SiteReader], pool: Pool
) -> Future[None]:
    """Read chunks, however many arrays they are of, as those of one array are read."""
    n_workers, inline = 1, True
    batches: list[Chunks] = []
    for leaf, requests in chunks:
        chain = requests.array.chain
        strategy = _strategy(pool, chain, requests.n)
        n_workers, inline = max(n_workers, strategy.n_workers), inline and not strategy.n_workers
        n = max(1, strategy.batch_nbytes // max(1, chain.item.nbytes))
        row = max(1, STAGING_NBYTES // max(1, 2 * chain.item.nbytes))
        n -= n % row if n > row else 0  # what is staged together
        batches += [(leaf, requests.take(i, i + n)) for i in range(0, requests.n, n)]

    def open_worker(stop: Stop) -> Callable[[Chunks], None]:
        sites = open_sites(stop)
        return lambda batch: sites.read_requests(*batch)

    return pool.run(batches, open_worker, lambda: None, n_workers=n_workers, inline=inline)


def _strategy(pool: Pool, chain: PreparedChain, n_chunks: int) -> ReadStrategy:
    return read_strategy(
        source="store",
        codecs=[codec.name for codec in chain.codecs],
        chunk_nbytes=chain.item.nbytes,
        n_chunks=n_chunks,
        n_processors=pool.n_workers,
    )


def _put(groups: Groups, parts: Iterable[StackPart]) -> None:
    for part in parts:
        groups.setdefault(part.layer, []).append(part)


def _n_workers(numbers: Sequence[int], layers: StackLayers, nbytes: int, pool: Pool) -> int | None:
    """Return how many threads are to take one layer after the other; None if these are read as they are.

    A layer that is read as it is divides its own work among threads.  Of small layers each would be
    read by the calling thread alone; and of very many not all are to be open.
    """
    n = len(numbers)
    local = all(layers.is_local(number) for number in numbers[:4])
    if n > _FEW:
        return pool.n_workers if local else _N_WAITING
    small = _LEAST_NBYTES <= nbytes <= n * _SMALL_NBYTES
    return pool.n_workers if n > 1 and local and small else None


def _load(
    sites: SiteReader, numbers: Sequence[int], n_workers: int, nbytes: int, pool: Pool
) -> tuple[int, bool]:
    """Return how many threads are to take local layers, and whether the caller is to, instead of any.

    More threads than one are slower if chunks are small; the first, the last and one between tell.
    """
    most, inline = 1, True
    for i in (0, len(numbers) // 2, -1):
        site = sites.site(numbers[i])
        if isinstance(site, FileSite):
            chain = site.array.chain
            strategy = _strategy(pool, chain, max(len(numbers), nbytes // max(1, chain.item.nbytes)))
            most, inline = max(most, strategy.n_workers), inline and not strategy.n_workers
        elif site is not None:
            inline = inline and len(numbers) <= _FEW_COPIES
        else:
            return n_workers, False
    return most, inline
