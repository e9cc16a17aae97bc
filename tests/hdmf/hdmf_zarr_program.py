"""A program as users of hdmf-zarr write them: what it prints doesn't depend on whose classes it has."""

from __future__ import annotations

import json
import os
import sys
import warnings
from datetime import UTC, datetime

import numcodecs
import numpy as np
from hdmf.data_utils import GenericDataChunkIterator
from hdmf_zarr import NWBZarrIO, ZarrDataIO
from hdmf_zarr.nwb import NWBZarrIO as SameIO
from pynwb import NWBHDF5IO, NWBFile, TimeSeries
from pynwb.ecephys import ElectricalSeries

warnings.simplefilter("ignore")


class Counter(GenericDataChunkIterator):
    """Numbers that are made when they are asked for."""

    def __init__(self, shape, **options):
        self.shape = tuple(shape)
        super().__init__(**options)

    def _get_data(self, selection):
        return np.arange(np.prod(self.shape), dtype="int32").reshape(self.shape)[selection]

    def _get_maxshape(self):
        return self.shape

    def _get_dtype(self):
        return np.dtype("int32")

    def _to_dict(self):
        return {"shape": self.shape}

    @staticmethod
    def _from_dict(given):
        return Counter(given["shape"], buffer_shape=(40, 10), chunk_shape=(20, 10))


def new_file(name):
    start = datetime(2024, 3, 1, 12, tzinfo=UTC)
    return NWBFile(session_description="d", identifier=name, session_start_time=start)


def main(folder):
    os.chdir(folder)
    said = {}
    raw = new_file("raw")
    device = raw.create_device("probe")
    group = raw.create_electrode_group("shank", "d", "CA1", device)
    for i in range(4):
        raw.add_electrode(group=group, location=f"site {i}")
    region = raw.create_electrode_table_region([1, 3], "two of four")
    data = ZarrDataIO(
        data=np.arange(200, dtype="int16").reshape(100, 2),
        chunks=(25, 2),
        compressor=numcodecs.Zstd(level=3),
        filters=[numcodecs.Delta("<i2")],
    )
    raw.add_acquisition(ElectricalSeries("lfp", data, region, rate=1000.0))
    stream = Counter((100, 10), buffer_shape=(40, 10), chunk_shape=(20, 10))
    raw.add_acquisition(TimeSeries("stream", ZarrDataIO(stream, chunks=(20, 10)), "V", rate=1.0))
    raw.add_trial(start_time=0.0, stop_time=1.0, timeseries=[raw.acquisition["stream"]])
    with NWBZarrIO(path="raw.nwb.zarr", mode="w") as io:
        io.write(raw, number_of_jobs=2, max_threads_per_process=1)

    with NWBZarrIO("raw.nwb.zarr", mode="r+") as io:
        found = io.read()
        found.add_acquisition(TimeSeries("late", np.arange(3.0), "V", rate=2.0))
        found.add_electrode(group=found.electrode_groups["shank"], location="site 4")
        io.write(found)

    with SameIO("raw.nwb.zarr", mode="r") as io:
        found = io.read()
        lfp = found.acquisition["lfp"]
        said["chunks"] = list(lfp.data.chunks)
        said["codecs"] = [lfp.data.compressor.codec_id, lfp.data.filters[0].codec_id]
        said["shape"] = list(lfp.data.shape)
        said["rows"] = np.asarray(lfp.data[10:12]).tolist()
        said["sum"] = int(np.sum(found.acquisition["stream"].data[:], dtype="int64"))
        said["region"] = [str(x) for x in lfp.electrodes.to_dataframe()["location"]]
        said["locations"] = [str(x) for x in found.electrodes["location"][:]]
        said["trials"] = [row[0].timeseries.name for row in found.trials["timeseries"][:]]
        said["group"] = found.electrodes["group"][4] is found.electrode_groups["shank"]

        linked = new_file("linked")
        linked.add_acquisition(found.acquisition["stream"])  # a link to the other file
        linked.add_stimulus(TimeSeries("half", found.acquisition["lfp"].data, "V", rate=1.0))
        with NWBZarrIO("linked.nwb.zarr", manager=io.manager, mode="w") as other:
            other.write(linked, link_data=True)

    with NWBZarrIO("linked.nwb.zarr", mode="r") as io:
        found = io.read()
        said["linked"] = [
            int(found.acquisition["stream"].data[99, 9]),
            int(found.stimulus["half"].data[99, 1]),
        ]

    with NWBZarrIO("raw.nwb.zarr", mode="r") as source, NWBZarrIO("exported.nwb.zarr", mode="w") as io:
        io.export(src_io=source, write_args={"link_data": False})
    with NWBZarrIO("raw.nwb.zarr", mode="r") as source, NWBHDF5IO("exported.nwb", mode="w") as io:
        io.export(src_io=source, write_args={"link_data": False})
    with NWBHDF5IO("exported.nwb", mode="r") as source, NWBZarrIO("back.nwb.zarr", mode="w") as io:
        io.export(src_io=source, write_args={"link_data": False})
    os.rename("raw.nwb.zarr", "moved.nwb.zarr")
    for name in ("exported", "back"):
        with NWBZarrIO(f"{name}.nwb.zarr", mode="r") as io:
            found = io.read()
            said[name] = [
                int(found.acquisition["stream"].data[99, 9]),
                [str(x) for x in found.electrodes["location"][:]],
                [row[0].timeseries.name for row in found.trials["timeseries"][:]],
            ]
    print(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1])
