"""Adding ragged rows to tables that were read, as ``units.add_unit`` does."""

# hdmf adds to the columns of such tables with functions that know lists, arrays and datasets of h5py only,
# and refuse anything else after other columns have their row already.  Here the columns of one file learn
# of lazy datasets: the objects that were read, not the classes of hdmf.  An index column that hdmf wants
# wider is written again; hdmf can do that in memory only.

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from hdmf.common import VectorIndex
from hdmf.container import Data

from chunkwise.hdmf.backend.lazy import LazyDataset

__all__ = ["let_grow"]

_ADJUST = "_VectorIndex__adjust_precision"


def let_grow(column: Any) -> None:
    """Let rows be added to a column that was read: many at once, and to an index with larger numbers."""
    if not isinstance(column, Data):
        return
    vars(column)["extend"] = partial(_extend, column, column.extend)
    known = getattr(column, _ADJUST, None)
    if isinstance(column, VectorIndex) and known is not None:
        vars(column)[_ADJUST] = partial(_adjust, column, known)


def _extend(column: Any, known: Any, arg: Any, **kwargs: Any) -> None:
    if isinstance(column.data, LazyDataset) and not kwargs:
        column.data.extend(arg)
    else:
        known(arg, **kwargs)


def _adjust(column: Any, known: Any, uint: Any) -> None:
    if isinstance(column.data, LazyDataset):
        column.data.widen(np.dtype(uint))
    else:
        known(uint)
