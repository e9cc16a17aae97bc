"""Whichever package does a library's work, codecs keep their contract and read what the peers wrote."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from examples import ALL

from chunkwise.core.libraries import LIBRARIES

HERE = Path(__file__).parent
TESTS = (
    "codec/test_codec_contracts.py", "codec/test_codec_peers.py", "codec/test_deflate.py",
    "codec/test_fast_paths.py", "codec/test_hostile_chunks.py", "codec/test_lz4_frames.py",
    "kvstore/test_zip_store.py", "n5/test_n5_block.py", "n5/test_n5_codec_contract.py",
    "n5/test_n5_fixtures.py",
)  # fmt: skip
FEW = ("codec/test_codec_contracts.py", "codec/test_deflate.py", "n5/test_n5_codec_contract.py")
OURS = "zstd or gzip or zlib or blosc or crc32c or lz4 or java or hostile or zip"
OTHERS = "bz2 or bzip2 or lzma or xz or zip64"  # by the standard library, or without a codec


def run(absent, *command):
    """Run Python without some packages; return what it prints."""
    paths = [str(HERE / "absent"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(paths), "CHUNKWISE_TEST_ABSENT": ",".join(absent)
    }  # fmt: skip
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    return done.stdout


WITHOUT = {
    ("direct", "fastcrc", "zstandard"): ["zlib and isal", "compression.zstd", "numcodecs", "google-crc32c"],
    ("direct", "google_crc32c", "compression"): ["zlib and isal", "zstandard", "numcodecs", "fastcrc"],
    ("google_crc32c", "lz4", "zstandard", "compression"): [
        "deflate (libdeflate)", "numcodecs (libzstd)", "numcodecs (c-blosc)", "fastcrc",
    ],
}  # fmt: skip
PRINT = "from chunkwise.core.libraries import LIBRARIES\nfor each in LIBRARIES: print(each.used)"


@pytest.mark.parametrize("absent", WITHOUT, ids=",".join)
def test_another_package_does_the_work(absent):
    assert run(absent, "-c", PRINT).splitlines() == WITHOUT[absent]
    all_run = ALL and "direct" in absent  # peers need the other packages
    tests = [str(HERE.parent / test) for test in (TESTS if all_run else FEW)]
    names = f"({OURS}) and not ({OTHERS})"
    out = run(absent, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not slow", "-k", names, *tests)
    assert "passed" in out and "skipped" not in out


def test_every_implementation_is_tried():
    """None can be added that no test runs with."""
    tried = {name for names in WITHOUT.values() for name in names}
    assert tried == {name for library in LIBRARIES for name in library.implementations}


def test_without_any_the_package_is_named():
    program = (
        "import chunkwise.core.libraries as l\n"
        "try: l.zstd()\n"
        "except ImportError as e: print(e)\n"
        "try: l.crc32c()\n"
        "except ImportError as e: print(e)"
    )
    out = run(("direct", "zstandard", "compression", "fastcrc", "google_crc32c"), "-c", program)
    assert out.splitlines() == [
        "zstd needs zstandard: pip install zstandard",
        "crc32c needs fastcrc: pip install fastcrc",
    ]
