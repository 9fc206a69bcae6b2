"""The comparisons of a study, family by family."""

import dataclasses
import itertools
from collections.abc import Sequence

from refusal_eval.features.comparisons.comparison_entries import ComparisonFamily
from refusal_eval.features.comparisons.comparisons_keys import ComparisonsKeys
from refusal_eval.study.comparison_families import JUDGES, MODELS, Family, Scope
from refusal_eval.study.study import Study

MOST_MODELS = 10  # a study of more models than this compares nothing until it says what
EXPECTATIONS = ("refuse", "comply", "varies")


def study_families(study: Study) -> list[Family]:
    """Return the families of a study; by default all pairs of up to ten models under the primary judge.

    Families of one label are numbered, so that the table can tell them apart.
    """
    written = ComparisonsKeys.of(study.settings).comparisons
    if written is None:
        written = [ComparisonFamily(pairs="all")] if 2 <= len(study.models) <= MOST_MODELS else []
    families = [_family(entry, study) for entry in written]
    labels = [family.label for family in families]
    return [
        dataclasses.replace(family, label=f"{family.label} ({i + 1})") if labels.count(family.label) > 1 else family
        for i, family in enumerate(families)
    ]


def _family(entry: ComparisonFamily, study: Study) -> Family:
    of_judges = entry.judges is not None
    models = entry.models or list(study.models)
    names = sorted(study.view.whole_judges if of_judges else models)
    wanted = entry.judges if of_judges else entry.pairs
    if entry.against is not None:
        pairs = [(name, entry.against) for name in names if name != entry.against]
        words = f"models against {study.label('model', entry.against)}"
    elif wanted == "all":
        pairs, words = list(itertools.combinations(names, 2)), f"all pairs of {JUDGES if of_judges else MODELS}"
    else:
        pairs = [(first, second) for first, second in wanted or ()]
        words = f"chosen pairs of {JUDGES if of_judges else MODELS}"
    return Family(
        label=entry.label or words,
        kind=JUDGES if of_judges else MODELS,
        held=tuple(sorted(models)) if of_judges else (entry.judge or study.primary_judge,),
        pairs=tuple(pairs),
        scopes=tuple(_scopes(entry.splits or list(study.splits), entry.scope, study)),
    )


def _scopes(splits: Sequence[str], scope: str, study: Study) -> list[Scope]:
    """Splits in the study's order, then the pools of two and more splits of one expectation."""
    single = [Scope((split,), None) for split in splits] if scope != "pooled" else []
    of = {e: sorted(s for s in splits if study.splits[s].expectation == e) for e in EXPECTATIONS}
    least = 1 if scope == "pooled" else 2
    pools = [Scope(tuple(found), e) for e, found in of.items() if len(found) >= least] if scope != "splits" else []
    return single + pools
