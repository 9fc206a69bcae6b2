"""Which prompts of a direction are held out: they enter no vector, and rank its layers."""

from __future__ import annotations

from collections.abc import Sequence

from refusal_eval.activations.groups import Group
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import sha256_of


def held_out_of(positive: Group, negative: Group, share: float, seed: int, purpose: str = "held out") -> set[str]:
    """Return the clusters of two sides that are held out (see `held_out_clusters`)."""
    parts = positive.parts, negative.parts
    return held_out_clusters(positive.clusters, negative.clusters, share, seed, purpose, parts)


def held_out_clusters(
    positive: Sequence[str],
    negative: Sequence[str],
    share: float,
    seed: int,
    purpose: str = "held out",
    parts: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> set[str]:
    """Return the clusters that are held out: about `share` of those of each side, and of those that are on both.

    Where a side has several parts, it is about `share` of the clusters of each part, and of those that the same parts
    have in common.

    Drawn by a hash of seed and cluster, so that neither the order of prompts nor other clusters matter much. Of each
    side at least one cluster is held out and one is left: where the draw did not give that, one more is held out, or
    one less. Shared clusters are changed only where the other side keeps both; with two clusters a side that is
    always possible.

    Args:
        positive, negative: the cluster of each prompt.
        parts: of each side's prompts the number of its part, where it has several.

    Raises:
        UserError: if a side has only one cluster.
    """
    sides = set(positive), set(negative)
    for name, clusters in zip(("positive", "negative"), sides, strict=True):
        if len(clusters) < 2:
            raise UserError(f"the prompts of the {name} side are one cluster, and two are needed: one is held out")
    held: set[str] = set()
    for stratum in _strata((positive, negative), parts):
        ranked = sorted(stratum, key=lambda cluster: sha256_of([purpose, seed, cluster]))
        held |= set(ranked[: round(share * len(ranked))])
    for own, other in (sides, sides[::-1]):
        ranked = sorted(own, key=lambda cluster: sha256_of([purpose, seed, cluster]))
        if not own & held:
            held.add(next(cluster for cluster in ranked if other - held != {cluster}))
        elif own <= held:
            held.discard(next(cluster for cluster in reversed(ranked) if other & held != {cluster}))
    for name, own in zip(("positive", "negative"), sides, strict=True):
        if not own & held or own <= held:
            raise UserError(f"the {name} side has too few clusters that the other has not: none can be {purpose}")
    return held


def _strata(sides: tuple[Sequence[str], Sequence[str]], parts: tuple[Sequence[int], Sequence[int]]) -> list[set[str]]:
    """Return the clusters that are in the same parts of the same sides, together."""
    places: dict[str, set[tuple[int, int]]] = {}
    for side, (clusters, numbers) in enumerate(zip(sides, parts, strict=True)):
        for cluster, number in zip(clusters, numbers or [0] * len(clusters), strict=True):
            places.setdefault(cluster, set()).add((side, number))
    strata: dict[frozenset[tuple[int, int]], set[str]] = {}
    for cluster, where in places.items():
        strata.setdefault(frozenset(where), set()).add(cluster)
    return list(strata.values())


def split_held(positive: Group, negative: Group, held: set[str]) -> tuple[tuple[Group, Group], tuple[Group, Group]]:
    """Return both sides without these clusters, and both sides with them alone."""
    rest = positive.of_clusters(held, inside=False), negative.of_clusters(held, inside=False)
    return rest, (positive.of_clusters(held), negative.of_clusters(held))
