"""XML files of BigDataViewer whose container is in a bucket, named in each way that they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from servers import new_s3_bucket

import chunkwise as cw
from chunkwise.cli.main import main

VALUES = np.arange(4 * 6 * 8, dtype="uint16").reshape(4, 6, 8)
XML = """<SpimData version="0.2"><SequenceDescription><ImageLoader format="bdv.n5">{}
</ImageLoader><ViewSetups><ViewSetup><id>0</id><name>GFP</name><voxelSize>
<unit>um</unit><size>0.5 0.5 2</size></voxelSize></ViewSetup></ViewSetups></SequenceDescription></SpimData>"""


@pytest.fixture
def bucket(moto: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a bucket with a container ``scan.n5``."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto)
    name = new_s3_bucket(moto)
    group = cw.open_group(f"s3://{name}/scans/scan.n5", "a", format="n5")
    group.create_array("setup0/timepoint0/s0", VALUES.T)
    group["setup0"].attrs["downsamplingFactors"] = [[1, 1, 1]]
    return name


def _check(place: Any, tmp_path: Path, **options: Any) -> None:
    image = cw.open_multiscale(place, **options)["setup0"]
    np.testing.assert_array_equal(image.levels[0].read().result(), VALUES.T)
    assert image.scales[0] == (0.5, 0.5, 2.0)
    if not options:
        assert main(["info", str(place), "--json"]) == 0
        assert main(["pyramid", str(place), str(tmp_path / "p.zarr"), "--levels", "1", "--json"]) == 0
        assert cw.open_multiscale(tmp_path / "p.zarr").scales[0] == (2.0, 0.5, 0.5)


@pytest.mark.parametrize(
    "container", ["<n5>s3://{}/scans/scan.n5</n5>", "<s3bucket>{}</s3bucket><n5>scans/scan.n5</n5>"]
)
def test_a_local_file_names_a_container_in_a_bucket(tmp_path: Path, bucket: str, container: str) -> None:
    (tmp_path / "scan.xml").write_text(XML.format(container.format(bucket)))
    _check(tmp_path / "scan.xml", tmp_path)


@pytest.mark.parametrize("container", ['<n5 type="relative">scan.n5</n5>', "<n5>s3://{}/scans/scan.n5</n5>"])
def test_a_file_in_a_bucket_names_a_container(tmp_path: Path, bucket: str, container: str) -> None:
    store = cw.KvStore.open(f"s3://{bucket}/scans/").result()
    store["scan.xml"] = XML.format(container.format(bucket)).encode()
    _check(f"s3://{bucket}/scans/scan.xml", tmp_path)


def test_a_container_in_the_bucket_of_the_file_is_read_as_the_file_is(
    tmp_path: Path, bucket: str, moto: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = cw.KvStore.open(f"s3://{bucket}/scans/").result()
    store["scan.xml"] = XML.format(f"<n5>s3://{bucket}/scans/scan.n5</n5>").encode()
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    _check(f"s3://{bucket}/scans/scan.xml", tmp_path, storage_options={"endpoint_url": moto})
