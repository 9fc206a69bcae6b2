"""The file of a scored cell: what is in it, that its bytes are always the same, and what is said of a damaged one."""

import math
from typing import Any

import numpy as np
import pytest
from estimate_rows import facts_of

from refusal_eval.core.files import BadFile
from refusal_eval.stats.estimates.estimands import SampleOutcome
from refusal_eval.stats.estimates.samples import read_facts, sample_rows, write_samples
from refusal_eval.stats.estimates.units import read_units

REFUSED = SampleOutcome("complete", "refusal", -0.25)
PARTLY = SampleOutcome("truncated", "partial", -1e-3)
COMPLIED = SampleOutcome("complete", "compliance", None)
UNPARSABLE = SampleOutcome("complete", None, -2.0)
BLOCKED = SampleOutcome("blocked", None, None)
FAILED = SampleOutcome("failed", None, None)
# An id and texts that a reader of CSV would take for others.
OUTCOMES = {("12e4567890123456", 0): [REFUSED, PARTLY, COMPLIED], ("b", 0): [UNPARSABLE, BLOCKED, FAILED]}
PROMPTS = [
    {"id": "12e4567890123456", "category": 'a,"b"\nc', "cluster": "1"},
    {"id": "b", "category": None, "cluster": "c\rd"},
]


def written(path, outcomes=OUTCOMES, samples=3, **facts: Any):
    def with_rows(outcome, sample):
        verdict = {"state": "judged" if outcome.label else "unparsable", "p_refusal": 0.5, "kind": "flat"}
        verdict["raw"] = {"cut_characters": 3} if sample == 1 else {}
        judged = outcome.state in ("complete", "truncated")
        return outcome._replace(answer={"answer_tokens": 7}, verdict=verdict if judged else None)

    known = {place: [with_rows(one, k) for k, one in enumerate(of_prompt)] for place, of_prompt in outcomes.items()}
    write_samples(path, sample_rows(PROMPTS, known), facts_of([], samples, **facts))
    return path


def test_each_sample_has_its_label_and_its_log_probability(tmp_path):
    units = read_units(written(tmp_path / "s.parquet", judge="j", scored="all"))
    assert units.labels is not None and units.labels.tolist() == [[0, 1, 2], [-1, 3, -1]]
    wanted = [[-0.25, -1e-3, math.nan], [-2.0, math.nan, math.nan]]
    assert np.array_equal(units.logprobs, wanted, equal_nan=True)
    assert units.frame.index.tolist() == [("12e4567890123456", 0), ("b", 0)]
    assert units["category"].tolist() == ['a,"b"\nc', ""] and units["cluster"].tolist() == ["1", "c\rd"]
    assert units.samples is not None and units.samples["cut"].tolist() == [False, True, *[False] * 4]
    assert units.samples["answer_tokens"].tolist()[3] == 7 and units.samples["kind"].tolist()[0] == "flat"
    assert (
        (units.facts["judge"], units.facts["scored"])
        == ("j", "all")
        == tuple(read_facts(tmp_path / "s.parquet")[name] for name in ("judge", "scored"))
    )


def test_a_cell_without_its_samples_is_the_same_cell(tmp_path):
    path = written(tmp_path / "s.parquet", judge="j", scored="all")
    whole, without = read_units(path), read_units(path, keep_samples=False)
    assert without.samples is None and without.frame.equals(whole.frame) and without.flags == whole.flags
    assert np.array_equal(without.labels, whole.labels)


def test_the_same_samples_give_the_same_bytes(tmp_path):
    one, two = (written(tmp_path / name).read_bytes() for name in ("one.parquet", "two.parquet"))
    assert one == two


def test_a_file_that_is_no_scored_cell_is_named(tmp_path):
    for content in (b"", b"prompt_id,turn\n", written(tmp_path / "whole.parquet").read_bytes()[:-9]):
        (tmp_path / "bad.parquet").write_bytes(content)
        for read in (read_units, read_facts):
            with pytest.raises(BadFile, match=r"bad\.parquet is no scored cell that this version reads; delete it"):
                read(tmp_path / "bad.parquet")
    with pytest.raises(BadFile, match=r"short\.parquet has not 2 samples of every prompt"):
        read_units(written(tmp_path / "short.parquet", samples=2))
