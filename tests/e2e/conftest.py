"""An engine has cores of its own."""

import pytest
from engine_workers import stay_on_own_cores


@pytest.fixture(scope="session", autouse=True)
def own_cores() -> None:
    stay_on_own_cores()
