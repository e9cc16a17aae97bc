"""Adding ragged rows to tables that were read, as ``units.add_unit`` does.

hdmf adds to the columns of such tables with functions that know lists, arrays and datasets of h5py only, and
refuse anything else after other columns have their row already.  Here they learn of lazy datasets.  An
index column begins with 8 bits per row and gets wider types as its target grows; hdmf can do that in memory
only, here the stored dataset is written again.
"""

from __future__ import annotations

from typing import Any

import hdmf.container
import hdmf.term_set
import numpy as np
from hdmf.common import VectorIndex

from chunkwise.hdmf.lazy import LazyDataset

__all__ = ["teach_hdmf"]

_ADJUST = "_VectorIndex__adjust_precision"


def teach_hdmf() -> None:
    """Let hdmf extend lazy datasets, and widen those of index columns; does nothing the second time."""
    for module in (hdmf.container, hdmf.term_set):
        known = getattr(module, "extend_data", None)
        if known is not None and not hasattr(known, "_knows_lazy"):
            module.extend_data = _extending(known)
    known = getattr(VectorIndex, _ADJUST, None)
    if known is not None and not hasattr(known, "_knows_lazy"):
        setattr(VectorIndex, _ADJUST, _adjusting(known))


def _extending(known: Any) -> Any:
    def extend_data(data: Any, arg: Any) -> Any:
        if not isinstance(data, LazyDataset):
            return known(data, arg)
        data.extend(arg)
        return data

    extend_data._knows_lazy = True  # type: ignore[attr-defined]
    return extend_data


def _adjusting(known: Any) -> Any:
    def adjust_precision(self: Any, uint: Any) -> None:
        if isinstance(self.data, LazyDataset):
            self.data.widen(np.dtype(uint))
        else:
            known(self, uint)

    adjust_precision._knows_lazy = True  # type: ignore[attr-defined]
    return adjust_precision
