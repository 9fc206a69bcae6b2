"""The file with what became of each sample of a cell: what is in it, and that it must be the score CSV's."""

import math

import numpy as np
import pytest

from refusal_eval.core.files import BadFile
from refusal_eval.stats.estimates.estimands import Outcome
from refusal_eval.stats.estimates.samples import read_samples, samples_of, write_samples

REFUSED = Outcome("complete", "refusal", -0.25)
PARTLY = Outcome("truncated", "partial", -1e-3)
COMPLIED = Outcome("complete", "compliance", None)
UNPARSABLE = Outcome("complete", None, -2.0)
BLOCKED = Outcome("blocked", None, None)
FAILED = Outcome("failed", None, None)
UNITS = [[REFUSED, PARTLY, COMPLIED], [UNPARSABLE, BLOCKED, FAILED]]
COUNTS = [np.array([1, 0]), np.array([1, 0]), np.array([1, 0]), np.array([0, 1])]


def test_each_sample_has_its_label_and_its_log_probability(tmp_path):
    write_samples(tmp_path / "s.npz", samples_of(UNITS))
    labels, logprobs = read_samples(tmp_path / "s.npz", COUNTS)
    assert labels.tolist() == [[0, 1, 2], [-1, 3, -1]]
    wanted = [[-0.25, -1e-3, math.nan], [-2.0, math.nan, math.nan]]
    assert np.array_equal(logprobs, wanted, equal_nan=True)


def test_the_same_samples_give_the_same_bytes(tmp_path):
    for name in ("one.npz", "two.npz"):
        write_samples(tmp_path / name, samples_of(UNITS))
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


@pytest.mark.parametrize("counts", [[*COUNTS[:3], np.array([0, 0])], [c[:1] for c in COUNTS]])
def test_samples_of_another_cell_are_told(tmp_path, counts):
    write_samples(tmp_path / "s.npz", samples_of(UNITS))
    with pytest.raises(BadFile, match=r"s\.npz has other samples than the score CSV beside it"):
        read_samples(tmp_path / "s.npz", counts)
