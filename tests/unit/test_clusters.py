"""Names of clusters among several splits."""

import dataclasses

import pytest
from rate_rows import units_of

from refusal_eval.core.cluster_names import names_apart
from refusal_eval.stats.estimates.pooled_estimates import pooled_rates
from refusal_eval.stats.estimates.units import clusters_apart

PROMPT = "872afa51aa4a373a"


def test_a_name_means_something_within_its_source_only():
    clusters = {"safe": ["1", "2"], "unsafe": ["1", "3"], "other": ["1", "4", PROMPT], "more": [PROMPT]}
    sources = {"safe": "safe", "unsafe": "safe", "other": "other", "more": "more"}
    found = names_apart(clusters, sources)
    assert found["safe"]["1"] == found["unsafe"]["1"] != found["other"]["1"]
    # Names without a namesake stay, and so does a prompt that two sources have.
    assert (found["safe"]["2"], found["unsafe"]["3"], found["other"]["4"]) == ("2", "3", "4")
    assert found["other"][PROMPT] == found["more"][PROMPT] == PROMPT


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
