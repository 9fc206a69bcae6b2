"""An engine has cores of its own; another tool has an environment of its own."""

import subprocess
import sys

import pytest
from engine_workers import stay_on_own_cores

PACKAGES = ("inspect_ai==0.3.285", "openai==3.57.0", "anthropic==2.14.0")
UNREACHABLE = ("No matching distribution", "Failed to establish", "Temporary failure", "timed out", "Connection")


@pytest.fixture(scope="session", autouse=True)
def own_cores() -> None:
    stay_on_own_cores()


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the Python of an environment with inspect_ai and both providers' libraries."""
    folder = tmp_path_factory.mktemp("oracle")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    pip = subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], capture_output=True, text=True)
    if pip.returncode and any(words in pip.stderr for words in UNREACHABLE):
        pytest.skip(f"the package index cannot be reached: {pip.stderr.strip().splitlines()[-1]}")
    assert pip.returncode == 0, pip.stderr
    return python
