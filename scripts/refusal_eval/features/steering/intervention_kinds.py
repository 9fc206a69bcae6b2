"""Kinds of interventions: those along a direction are chosen by their `mode`, all others by their `kind`."""

from collections.abc import Mapping
from typing import Annotated, Any

from refusal_eval.config.kinds import Kinds, OfKind
from refusal_eval.config.shapes import Entry


class InterventionKinds(Kinds):
    """The kinds by name; a mode is the name of a kind, too."""

    def kind_of(self, entry: Any) -> Any:
        """Return the kind of an entry, written or validated."""
        kind, mode = (
            entry.get(key) if isinstance(entry, Mapping) else getattr(entry, key, None) for key in ("kind", "mode")
        )
        return mode if kind is None else kind


INTERVENTIONS = InterventionKinds("intervention", "INTERVENTIONS")
AnyIntervention = Annotated[Entry, OfKind(INTERVENTIONS)]
