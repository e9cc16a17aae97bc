"""Transactions on a server that changes one key at a time, against the model of all stores."""

from __future__ import annotations

import pytest
from servers import new_s3_bucket
from tests.api.transaction_model import DRIVERS, run, seeds_of_today


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
def test_programs(moto: str, monkeypatch: pytest.MonkeyPatch, driver: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto)
    bucket = new_s3_bucket(moto)
    for seed in seeds_of_today(6, 2):
        run(seed, driver, {"driver": "s3", "bucket": bucket, "path": f"{driver}/{seed}/"})
