"""What all tests share: where the repository and the shared data are, and the async backend."""

from __future__ import annotations

from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED_DATA = REPOSITORY.parent / "shared" / "data"


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real problems and solutions that are no part of the project; they lie beside it."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the shared data does not lie beside this checkout")
    return SHARED_DATA
