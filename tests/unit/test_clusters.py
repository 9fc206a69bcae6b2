"""Names of clusters among several splits."""

import dataclasses
import tracemalloc

import numpy as np
import pytest
from rate_rows import units_of

from refusal_eval.core.cluster_names import names_apart
from refusal_eval.stats.estimates.intervals import effective_of
from refusal_eval.stats.estimates.pooled_estimates import pooled_rates
from refusal_eval.stats.estimates.resampling import cluster_codes
from refusal_eval.stats.estimates.units import clusters_apart, few_of

PROMPT = "872afa51aa4a373a"


def test_a_name_means_something_within_its_source_only():
    clusters = {"safe": ["1", "2"], "unsafe": ["1", "3"], "other": ["1", "4", PROMPT], "more": [PROMPT]}
    sources = {"safe": "safe", "unsafe": "safe", "other": "other", "more": "more"}
    found = names_apart(clusters, sources)
    assert found["safe"]["1"] == found["unsafe"]["1"] != found["other"]["1"]
    # Names without a namesake stay, and so does a prompt that two sources have.
    assert (found["safe"]["2"], found["unsafe"]["3"], found["other"]["4"]) == ("2", "3", "4")
    assert found["other"][PROMPT] == found["more"][PROMPT] == PROMPT


def test_names_that_differ_in_a_nul_at_the_end_are_two_clusters():
    names = ["b", "a\0", "a", "b", "\U0001f469", "\uffff"]
    assert cluster_codes(names).tolist() == [2, 1, 0, 2, 4, 3]
    assert effective_of(["a", "a\0"]) == 2
    # 30 clusters of one prompt each; 15 of two are few.
    assert few_of(np.array([0.0, 1.0] * 15), [f"{i:02d}" + "\0" * odd for i in range(15) for odd in (0, 1)]) == ()


def test_a_long_name_makes_the_others_no_longer():
    names = ["x" * 100_000, *map(str, range(10_000))]  # as an array of text: 4 GB
    tracemalloc.start()
    assert cluster_codes(names)[0] == 10_000
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


def test_cells_of_one_split_keep_common_names():
    units = {("j", m, s): units_of([0, 1], clusters=["1", "2"]) for m in "mn" for s in "ab"}
    found = clusters_apart(units, {"a": "a", "b": "b"})
    assert found["j", "m", "a"]["cluster"].tolist() == found["j", "n", "a"]["cluster"].tolist()
    assert not set(found["j", "m", "a"]["cluster"]) & set(found["j", "m", "b"]["cluster"])


@pytest.mark.parametrize(("sources", "clusters"), [({"a": "x", "b": "x"}, 20), ({"a": "x", "b": "y"}, 40)])
def test_numbered_clusters_of_two_sources_do_not_make_a_pooled_interval_wider(sources, clusters):
    names = [str(i) for i in range(20)]
    facts = {"judge": "j", "model": "m", "expectation": "refuse", "headline": "strict", "samples": 2, "level": 0.95}
    cells = [dataclasses.replace(units_of([0, 2] * 10, clusters=names), facts=facts | {"split": s}) for s in "ab"]
    found = next(e for e in pooled_rates(cells, set(), sources) if e.reading == "strict")
    assert found.n_clusters == clusters
    # Equal rates in clusters that are taken for common ones move together: the width of one split, not of two.
    assert (found.high - found.low > 0.4) == (clusters == 20)
