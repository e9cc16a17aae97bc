"""z5py's names on groups and arrays of chunkwise: programs written for z5py run on it.

`chunkwise.install_as_z5py` lets ``import z5py`` give these modules.
"""

from chunkwise.extension.inside import name_members
from chunkwise.z5py import attribute_manager, dataset, file, group
from chunkwise.z5py.attribute_manager import AttributeManager, set_json_decoder, set_json_encoder
from chunkwise.z5py.dataset import Dataset
from chunkwise.z5py.file import File, N5File, S3File, ZarrFile
from chunkwise.z5py.group import Group

__all__ = [
    "AttributeManager",
    "Dataset",
    "File",
    "Group",
    "N5File",
    "S3File",
    "ZarrFile",
    "attribute_manager",
    "dataset",
    "file",
    "group",
    "set_json_decoder",
    "set_json_encoder",
]

name_members(globals(), [name for name in __all__ if name[0].isupper() or name.startswith("set_")])
