"""NWB files that `chunkwise.serve` serves, read by HTTP as any other file."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from base64 import b64encode
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
from nwb_content import ecephys, intervals, new_file, ophys, series, tables
from pynwb import NWBHDF5IO

import chunkwise
from chunkwise.errors import NotFoundError, UnsupportedError
from chunkwise.hdmf import NWBZarrIO, read_nwb

pytestmark = pytest.mark.filterwarnings("ignore")

READ = """
import sys, warnings
warnings.simplefilter("ignore")
from chunkwise.hdmf import NWBZarrIO, open_store
with NWBZarrIO(sys.argv[1]) as io:
    nwb = io.read()
    assert nwb.acquisition["raw"].data.shape == (21, 3), nwb.acquisition["raw"].data
    assert nwb.acquisition["raw"].data[-1].tolist() == [7, 8, 9]
    assert nwb.trials["timeseries"][3][0].timeseries is nwb.acquisition["ts"]
    assert nwb.trials["cond"][:].tolist() == ["c0", "c1", "c2", "new"]
    assert nwb.electrodes["group"][1] is nwb.electrode_groups["shank1"]
    assert nwb.electrode_groups["shank1"].position.tolist() == (1.0, 2.0, 3.0)
assert open_store(sys.argv[1]).names("/intervals") == ["epochs", "trials"]
print("read")
"""


def test_a_served_file_is_read_in_another_process(tmp_path: Path) -> None:
    nwb = new_file()
    for add in (ecephys, intervals, ophys, tables, series):
        add(nwb)
    with NWBZarrIO(tmp_path / "a.nwb.zarr", mode="w") as io:
        io.write(nwb)
    with chunkwise.serve(tmp_path / "a.nwb.zarr") as server:
        urls = server.urls()
        url = f"{server.url}zarr3/a.nwb.zarr"
        assert urls["pynwb"] == f'chunkwise.hdmf.read_nwb("{url}")'
        assert read_nwb(url).acquisition["raw"].data.shape == (20, 3)
        with NWBZarrIO(tmp_path / "a.nwb.zarr", mode="r+") as io:
            nwb = io.read()
            nwb.acquisition["raw"].data.append([7, 8, 9])
            ts = nwb.acquisition["ts"]
            nwb.add_trial(start_time=9.0, stop_time=9.5, cond="new", tags=["x"], timeseries=[ts])
            io.write(nwb)
        done = subprocess.run(
            [sys.executable, "-c", f"import time; time.sleep(2.1){READ}", url],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.stdout == "read\n", done.stderr
        assert chunkwise.diff(tmp_path / "a.nwb.zarr", url) == []
        with (
            pytest.raises(UnsupportedError, match="web server, which can only be read: mode 'r\\+'"),
            NWBZarrIO(url, mode="r+"),
        ):
            pass
    with chunkwise.serve({"x": np.arange(2)}) as server:
        assert "pynwb" not in server.urls()


def test_an_hdf5_file_on_a_web_server_is_named_with_the_url_that_opens_it(tmp_path: Path) -> None:
    with NWBHDF5IO(tmp_path / "a.nwb", "w") as io:
        io.write(new_file("remote"))
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/a.nwb"
        try:
            with pytest.raises(NotFoundError, match=r"it is an HDF5 file.*a\.nwb\|hdf5:") as e:
                read_nwb(url)
            assert f'"{url}|hdf5:"' in str(e.value)
            assert read_nwb(f"{url}|hdf5:").identifier == "remote"
        finally:
            server.shutdown()


def test_a_link_to_a_file_on_a_web_server_leaves_out_the_password(tmp_path: Path) -> None:
    nwb = new_file()
    series(nwb)
    with NWBZarrIO(tmp_path / "a.nwb.zarr", mode="w") as io:
        io.write(nwb)
    with chunkwise.serve(tmp_path / "a.nwb.zarr") as server:
        url = f"{server.url}zarr3/a.nwb.zarr"
        with NWBZarrIO(url.replace("//", "//me:s3cr3t@"), mode="r") as there:
            linking = new_file("linking")
            linking.add_acquisition(there.read().acquisition["nans"])
            out = tmp_path / "b.nwb.zarr"
            with NWBZarrIO(out, mode="w", manager=there.manager, allow_external_links="any") as io:
                io.write(linking)
        stored = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        assert any(url.encode() in value for value in stored.values())
        assert not [path for path, value in stored.items() if b"s3cr3t" in value]
        with NWBZarrIO(out, mode="r", allow_external_links="any") as io:
            assert io.read().acquisition["nans"].data.shape == (4,)


class _Private(SimpleHTTPRequestHandler):
    """Answers only who gives the password."""

    def log_message(self, *_: object) -> None:
        pass

    def send_head(self) -> BinaryIO | None:
        if self.headers.get("Authorization") == "Basic " + b64encode(b"me:s3cr3t").decode():
            return super().send_head()
        self.send_error(401)
        return None


def test_files_behind_a_password_and_their_links_are_read_and_do_not_show_it(tmp_path: Path) -> None:
    nwb = new_file()
    series(nwb)
    with NWBZarrIO(tmp_path / "a.nwb.zarr", mode="w") as io:
        io.write(nwb)
    with NWBZarrIO(tmp_path / "a.nwb.zarr") as there:
        linking = new_file("linking")
        linking.add_acquisition(there.read().acquisition["nans"])
        with NWBZarrIO(tmp_path / "b.nwb.zarr", mode="w", manager=there.manager) as io:
            io.write(linking)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Private, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            url = f"http://me:s3cr3t@127.0.0.1:{server.server_address[1]}/b.nwb.zarr"
            with NWBZarrIO(url, mode="r") as io:
                found = io.read().acquisition["nans"]
                assert found.data.shape == (4,)
                shown = [
                    io.source,
                    io.abspath,
                    repr(found.data),
                    found.container_source,
                    pickle.dumps(found.data),
                ]
            with pytest.raises(NotFoundError) as missing:
                read_nwb(f"{url}/none")
            assert not [text for text in (*shown, missing.value) if "s3cr3t" in str(text)]
        finally:
            server.shutdown()
