"""What became of each sample of a cell: labels and log-probabilities as matrices, units x K, and the file with both.

A unit is a row of the cell's score CSV: a prompt, or of dialogues a scored turn. The file lies beside that CSV, so that
what needs every sample need not read answers and verdicts again.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refusal_eval.core.files import BadFile, written_whole
from refusal_eval.core.states import BLOCKED, LABELS
from refusal_eval.stats.estimates.estimands import Outcome

Labels = NDArray[np.int8]
Logprobs = NDArray[np.float64]

# Places in states.LABELS, and beside them:
BLOCKED_LABEL = len(LABELS)
NO_LABEL = -1


class Samples(NamedTuple):
    """The samples of a cell."""

    # for each unit and sample its label's place in `states.LABELS`, 3 where blocked, -1 where none counts
    labels: Labels
    # mean log-probability of the answer's tokens in nats; NaN where there is none, or nothing to judge
    logprobs: Logprobs


def samples_of(units: Iterable[Sequence[Outcome]]) -> Samples:
    """Return the samples of a cell from the K outcomes of each unit, in the order of the score CSV."""
    numbers: dict[str | None, int] = {None: NO_LABEL} | {label: i for i, label in enumerate(LABELS)}
    labels, logprobs = [], []
    for outcomes in units:
        labels.append([BLOCKED_LABEL if o.state == BLOCKED else numbers[o.label] for o in outcomes])
        logprobs.append([o.logprob for o in outcomes])
    return Samples(np.array(labels, dtype=np.int8), np.array(logprobs, dtype=np.float64))  # None becomes NaN


def write_samples(path: str | Path, samples: Samples) -> None:
    """Write samples as an .npz file with the arrays `labels` and `logprobs`; the same samples give the same bytes."""
    with written_whole(path, "wb") as handle:
        np.savez(handle, **samples._asdict())


def read_samples(path: str | Path, counts: Sequence[NDArray[np.int64]]) -> Samples:
    """Return the samples of a cell.

    Args:
        counts: how many samples of each unit have the label 0, 1, 2 and so on, as the score CSV beside the file says.

    Raises:
        BadFile: if the file has other samples than that CSV.
    """
    with np.load(path) as arrays:
        samples = Samples(arrays["labels"], arrays["logprobs"])
    for label, wanted in enumerate(counts):
        found = (samples.labels == label).sum(axis=1)
        if len(found) != len(wanted) or (found != wanted).any():
            raise BadFile(f"{path} has other samples than the score CSV beside it")
    return samples
