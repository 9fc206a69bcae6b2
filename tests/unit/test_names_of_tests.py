"""Names of test files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def test_no_two_files_of_tests_or_helpers_have_one_name() -> None:
    """All folders of tests are on the import path, so that the second of two files of one name stops the whole run."""
    files = [path for path in TESTS.glob("*/*.py") if path.name != "conftest.py"] + list(TESTS.glob("*.py"))
    names = Counter(path.name for path in files)
    assert len(names) > 100
    assert [name for name, times in names.items() if times > 1 and name != "conftest.py"] == []
