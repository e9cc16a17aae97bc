"""What is asked for is there, or there is a clear error and nothing has changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from destinations import change_model, option_model, request_model

_MANY = int(os.environ.get("CHUNKWISE_REQUESTS", "3000"))
_SEED = os.environ.get("CHUNKWISE_REQUESTS_SEED", "4")


def test_random_requests(tmp_path: Path) -> None:
    assert request_model.findings(3, 60, tmp_path) == {}


def test_the_requests_have_each_writer_and_each_state() -> None:
    drawn = [request for _, request in request_model.numbered(3, 60)]
    assert {request.writer for request in drawn} == request_model.WRITERS.keys()
    assert {request.state for request in drawn} == request_model.STATES.keys()


def test_random_options(tmp_path: Path) -> None:
    assert option_model.findings(3, 25, tmp_path) == {}


def test_random_changes(tmp_path: Path) -> None:
    assert change_model.findings(1, 30, tmp_path) == {}


@pytest.mark.slow
def test_many_random_requests(tmp_path: Path) -> None:
    """``CHUNKWISE_REQUESTS`` says how many, ``CHUNKWISE_REQUESTS_SEED`` with which seed."""
    assert request_model.findings(_SEED, _MANY, tmp_path) == {}


@pytest.mark.slow
def test_many_random_options(tmp_path: Path) -> None:
    assert option_model.findings(_SEED, _MANY // 3, tmp_path) == {}


@pytest.mark.slow
def test_many_random_changes(tmp_path: Path) -> None:
    assert change_model.findings(_SEED, _MANY // 3, tmp_path) == {}
