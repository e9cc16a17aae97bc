"""Random options of new arrays, as in tests/destinations, in a bucket."""

from __future__ import annotations

from pathlib import Path

import pytest
from destinations import option_model
from servers import new_s3_bucket

import chunkwise as cw


@pytest.mark.slow
def test_random_options(moto: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto)
    bucket = cw.KvStore.open(f"s3://{new_s3_bucket(moto)}/", context=option_model.CONTEXT).result()
    monkeypatch.setitem(option_model.PLACES, "s3", bucket)
    assert option_model.findings(1, 80, tmp_path, ("s3",)) == {}
