"""Names of clusters that mean the same wherever prompts of several sources come together."""

import re
from collections.abc import Collection, Mapping

_PROMPT_ID = re.compile(r"[0-9a-f]{16}")


def names_apart(clusters: Mapping[str, Collection[str]], sources: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return for each split the name that each of its clusters has among the clusters of all splits.

    What a column of a source calls a cluster, such as `1` or `weapons`, means something within that source only. So a
    name that splits of different sources have is told apart by the source; any other name stays as it is. So does the
    id of a prompt, the name of a cluster that no column gives: it says what the prompt is, wherever it comes from.

    Args:
        sources: a word for the source of each split; splits of one source have the same.
    """
    used: dict[str, set[str]] = {}
    for split, names in clusters.items():
        for name in set(names):
            used.setdefault(name, set()).add(sources[split])
    return {
        split: {
            name: name if len(used[name]) == 1 or _PROMPT_ID.fullmatch(name) else f"{name} of {sources[split]}"
            for name in set(names)
        }
        for split, names in clusters.items()
    }
