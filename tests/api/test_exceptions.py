"""Exceptions in other processes: what is caught there is what was raised here."""

import copy
import pickle

import pytest
from distributed.protocol import pickle as dask_pickle

from chunkwise import errors

CLASSES = [
    value
    for name in errors.__all__
    if isinstance(value := getattr(errors, name), type) and issubclass(value, Exception)
]
WAYS = {
    "pickle": lambda error: pickle.loads(pickle.dumps(error)),
    "Dask": lambda error: dask_pickle.loads(dask_pickle.dumps(error)),
    "copy": copy.copy,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", CLASSES)
def test_class_and_text_stay(kind, way):
    """Class and text are the same, with a cause of the system or without."""
    error = kind("no such thing")
    error.__cause__ = OSError(27, "File too large", "name")
    found = WAYS[way](error)
    assert type(found) is kind
    assert (str(found), found.args, found.message) == (str(error), error.args, error.message)


@pytest.mark.parametrize("way", WAYS)
def test_number_of_the_system_stays(way):
    """So does the number of the operating system's error."""
    assert WAYS[way](errors.StorageError("disk full", 28)).errno == 28
