"""Real NWB content for round trips: each function adds one kind of it to a file."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
from examples import ALL, shares
from hdmf.common import DynamicTable, VectorData
from pynwb import NWBFile, TimeSeries
from pynwb.base import Image, ImageReferences, Images
from pynwb.behavior import Position
from pynwb.ecephys import LFP
from pynwb.file import Subject
from pynwb.image import GrayscaleImage, ImageSeries, RGBImage
from pynwb.ophys import Fluorescence, ImageSegmentation, OpticalChannel, TwoPhotonSeries

START = datetime(2024, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)


def new_file(name: str = "content") -> NWBFile:
    return NWBFile(
        session_description=f"{name}: ünï 日本",
        identifier=name,
        session_start_time=START,
        file_create_date=[START],
        experimenter=["Baggins, Bilbo", "Müller, Jürgen"],
        keywords=["a", "bb"],
    )


def ecephys(nwb: NWBFile) -> None:
    device = nwb.create_device("probe")
    shanks = [nwb.create_electrode_group(f"shank{i}", "d", "CA1", device) for i in range(2)]
    shanks[1].position = np.array((1.0, 2.0, 3.0), [("x", "f4"), ("y", "f4"), ("z", "f4")])
    nwb.add_electrode_column("label", "text")
    for i in range(6):
        nwb.add_electrode(group=shanks[i % 2], location="CA1", x=float(i), label=f"e{i}")
    region = nwb.create_electrode_table_region([0, 2, 4], "some")
    data = np.arange(60, dtype="i2").reshape(20, 3)
    from pynwb.ecephys import ElectricalSeries

    raw = ElectricalSeries("raw", data, region, rate=30000.0, channel_conversion=np.array([1.0, 2.0, 3.0]))
    nwb.add_acquisition(raw)
    module = nwb.create_processing_module("ecephys", "d")
    part = nwb.create_electrode_table_region([1], "one")
    module.add(LFP(ElectricalSeries("lfp", data[:, :1], part, timestamps=np.arange(20.0))))
    nwb.add_unit_column("quality", "text")
    for i in range(3):
        nwb.add_unit(
            spike_times=np.arange(i + 1) / 7,
            obs_intervals=[[0.0, 1.0 + i]],
            electrodes=[0, i],
            electrode_group=shanks[0],
            waveform_mean=np.full(4, float(i)),
            quality=f"q{i}",
        )
    nwb.subject = Subject(subject_id="s", age="P90D", species="Mus musculus", date_of_birth=START)


def ophys(nwb: NWBFile) -> None:
    device = nwb.create_device("scope")
    plane = nwb.create_imaging_plane(
        name="ip",
        optical_channel=OpticalChannel("oc", "d", 500.0),
        description="d",
        device=device,
        excitation_lambda=600.0,
        indicator="GCaMP",
        location="V1",
        imaging_rate=30.0,
        grid_spacing=[0.1, 0.2],
        grid_spacing_unit="meters",
    )
    series = TwoPhotonSeries(
        name="tps",
        data=np.arange(60, dtype="u2").reshape(5, 4, 3),
        imaging_plane=plane,
        rate=1.0,
        unit="n.a.",
    )
    nwb.add_acquisition(series)
    module = nwb.create_processing_module("ophys", "d")
    segmentation = ImageSegmentation()
    module.add(segmentation)
    pixel = segmentation.create_plane_segmentation("pixels", plane, "ps_pixel", series)
    voxel = segmentation.create_plane_segmentation("voxels", plane, "ps_voxel", series)
    image = segmentation.create_plane_segmentation("images", plane, "ps_image", series)
    for i in range(3):
        pixel.add_roi(pixel_mask=[(i, j, j / 2) for j in range(i + 1)])
        voxel.add_roi(voxel_mask=[(1, 2, i, 0.5), (4, 5, 6, 1.0)])
        image.add_roi(image_mask=np.full((4, 3), float(i)))
    fluorescence = Fluorescence()
    module.add(fluorescence)
    rois = pixel.create_roi_table_region("two", region=[0, 2])
    fluorescence.create_roi_response_series(
        name="rrs", data=np.ones((5, 2)), rois=rois, unit="lumens", rate=1.0
    )


def tables(nwb: NWBFile) -> None:
    table = DynamicTable("dt", "columns of every kind")
    table.add_column("number", "d")
    table.add_column("flag", "d")
    table.add_column("word", "d")
    table.add_column("ragged", "d", index=True)
    table.add_column("double", "d", index=2)
    table.add_column("choice", "d", enum=True)
    for i in range(4):
        table.add_row(
            number=np.uint16(i),
            flag=bool(i % 2),
            word=f"w{i}",
            ragged=[f"r{j}" for j in range(i)],
            double=[[float(k) for k in range(j + 1)] for j in range(i + 1)],
            choice=("lo", "hi")[i % 2],
        )
    nwb.add_scratch(table)
    nwb.add_scratch(
        DynamicTable("arrays", "d", columns=[VectorData("m", "d", data=np.arange(12.0).reshape(4, 3))])
    )


def intervals(nwb: NWBFile) -> None:
    series = TimeSeries("ts", np.arange(20.0), "V", timestamps=np.arange(20.0))
    other = TimeSeries("shared", np.arange(20, dtype="u8"), "V", timestamps=series)
    nwb.add_acquisition(series)
    nwb.add_acquisition(other)
    nwb.add_trial_column("cond", "d")
    for i in range(3):
        nwb.add_trial(
            start_time=float(i),
            stop_time=i + 0.5,
            cond=f"c{i}",
            tags=[f"t{j}" for j in range(i)],
            timeseries=[series, other],
        )
    nwb.add_epoch(0.0, 2.0, ["only"], [other])


def icephys(nwb: NWBFile) -> None:
    device = nwb.create_device("amp")
    electrode = nwb.create_icephys_electrode(name="el", description="d", device=device)
    from pynwb.icephys import VoltageClampSeries, VoltageClampStimulusSeries

    rows = []
    for i in range(2):
        stimulus = VoltageClampStimulusSeries(
            name=f"stim{i}",
            data=np.arange(5.0),
            electrode=electrode,
            gain=0.1,
            rate=10.0,
            sweep_number=np.uint64(i),
        )
        response = VoltageClampSeries(
            name=f"resp{i}",
            data=np.arange(5.0) + i,
            electrode=electrode,
            gain=0.2,
            rate=10.0,
            sweep_number=np.uint64(i),
        )
        rows.append(
            nwb.add_intracellular_recording(
                electrode=electrode,
                stimulus=stimulus,
                response=response,
                stimulus_start_index=0,
                stimulus_index_count=4,
                response_start_index=1,
                response_index_count=3,
            )
        )
    simultaneous = nwb.add_icephys_simultaneous_recording(recordings=rows)
    sequential = nwb.add_icephys_sequential_recording(
        simultaneous_recordings=[simultaneous], stimulus_type="ramp"
    )
    repetition = nwb.add_icephys_repetition(sequential_recordings=[sequential])
    nwb.add_icephys_experimental_condition(repetitions=[repetition])


def images(nwb: NWBFile) -> None:
    members: list[Image] = [
        RGBImage(name="rgb", data=np.arange(12, dtype="u1").reshape(2, 2, 3)),
        GrayscaleImage(name="gray", data=np.eye(3), resolution=1.5, description="d"),
    ]
    order = ImageReferences(name="order_of_images", data=members[::-1])
    nwb.add_acquisition(Images("imgs", images=members, description="d", order_of_images=order))
    nwb.add_acquisition(
        ImageSeries(
            "ext",
            external_file=["a.tif", "b.tif"],
            starting_frame=[0, 5],
            timestamps=np.arange(8.0),
            format="external",
            unit="n.a.",
        )
    )


def series(nwb: NWBFile) -> None:
    kinds: dict[str, Any] = {
        "big": np.array([1, 2, 300], ">i4"),
        "u64": np.array([0, 2**63 + 5, 2**64 - 1], "u8"),
        "half": np.array([0.5, 1.5], "f2"),
        "bools": np.array([True, False, True]),
        "words": ["a", "", "日本語", "long string with\nnewline"],
        "words2": [["a", "bb"], ["ccc", "dd"]],
        "none": np.empty((0, 3)),
        "nans": np.array([np.nan, np.inf, -np.inf, -0.0]),
    }
    for name, data in kinds.items():
        nwb.add_acquisition(TimeSeries(name, data, "n.a.", rate=1.0, conversion=2.5))
    position = Position()
    place = np.arange(8.0).reshape(4, 2)
    position.create_spatial_series(name="place", data=place, reference_frame="corner", rate=1.0)
    nwb.create_processing_module("behavior", "d").add(position)
    nwb.add_scratch("just a string", name="txt", description="d")


CONTENT: dict[str, Callable[[NWBFile], None]] = {
    function.__name__: function for function in (ecephys, ophys, tables, intervals, icephys, images, series)
}


FORMATS = ("zarr2", "zarr3", "n5")


# What is in the files that are tried in each format: each kind, or a part of all in one file.
FILES = [
    (format, file)
    for format, names in shares(CONTENT, FORMATS)
    for file in (names if ALL else [" ".join(names)])
]


def file_of(names: str) -> NWBFile:
    """Return a file with contents of some kinds, whose names are given in one text."""
    nwb = new_file(names)
    for name, add in CONTENT.items():
        if name in names.split():
            add(nwb)
    return nwb
