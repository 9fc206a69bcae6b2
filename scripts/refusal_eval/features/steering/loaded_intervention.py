"""The intervention of an engine load: given to its server, proven to be at work, and what passed its gate counted."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from refusal_eval.ask.store import GATE
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import canonical_json, read_json, write_json
from refusal_eval.engines.loaded_change import LoadedChange, PostJson
from refusal_eval.features.steering.intervention_file import CompiledIntervention, read_compiled

if TYPE_CHECKING:
    from refusal_eval.ask.pending import Pending

LOG = logging.getLogger(__name__)
RECORD = "intervention.json"  # what the worker writes into the server's private folder
COUNTS = "intervention_gate.json"  # beside the record: how many tokens passed the gate, since it was last asked
COUNTING = "refusal-eval-gate"  # in the id of the request that asks; counts begin again after it
PLAIN = "refusal-eval-plain"  # in the id of a request, alone in the engine, that is answered without the intervention
STRENGTHS = ("add", "remove", "share")  # tensors that are 0 where an intervention changes nothing
TOKENS = 8  # of each greedy answer that is compared: a first one may be certain
PROMPTS = (0, 1, 2)  # each a token, compared one after the other until an answer differs
WORKER = "steered_worker.SteeredWorker"


@dataclass(frozen=True)
class LoadedIntervention(LoadedChange):
    """The intervention of a load: of one model, as each has loads of its own."""

    name: ClassVar[str] = "intervention"
    reported: ClassVar[str] = "how many tokens passed the gate"

    interventions: Sequence[CompiledIntervention]

    def __str__(self) -> str:
        """Return whose it is."""
        return "the intervention of " + ", ".join(f"`{one.model}`" for one in self.interventions)

    @property
    def one(self) -> CompiledIntervention:
        """The one that is served."""
        (one,) = self.interventions
        return one

    @property
    def hashes(self) -> list[str]:
        """What identifies the interventions."""
        return [one.sha256 for one in self.interventions]

    def asked_by(self, pending: Sequence[Pending]) -> Self | None:
        """Return the one intervention that all requests ask for.

        Raises:
            UserError: if they ask for another than is there, or for several: each has a load of its own.
        """
        known = {one.sha256: one for one in self.interventions}
        asked = {sha256_asked(item.settings.changes) for item in pending} or set(known)
        if len(asked) > 1:
            raise UserError(f"one load is asked for {len(asked)} interventions; this is a mistake in the workflow")
        (sha256,) = asked
        if sha256 is None:
            return None
        if sha256 not in known:
            raise UserError(f"the requests ask for intervention {sha256[:16]}, which no longer exists; run again")
        return replace(self, interventions=[known[sha256].unchanged()])

    def refuse_changed(self) -> None:
        """Raise `UserError` for a file whose content is not the card's."""
        self.one.unchanged()

    def without_paths(self) -> Self:
        """Return it without its file."""
        return replace(self, interventions=[replace(one, file="FILE") for one in self.interventions])

    def options(self) -> dict[str, Any]:
        """Return the options that give a server of vLLM the worker and the intervention."""
        asked = {"intervention": {"file": self.one.file, "sha256": self.one.sha256}}
        return {"worker-cls": WORKER, "additional-config": canonical_json(asked)}

    async def prove(self, ask: PostJson, folder: str) -> dict[str, Any]:
        """Return what the worker says of the intervention (see `proven`)."""
        record = await proven(self.one, ask, folder)
        with contextlib.suppress(ConnectionError):  # the end tells
            await gate_counts(self.one, ask, folder)  # the tokens of the proof do not count
        return record

    def refusal(self, folder: str) -> str:
        """Return why the worker refused the intervention."""
        return refusal(folder)

    async def report(self, ask: PostJson, folder: str) -> dict[str, Any]:
        """Return how many tokens passed the gate (see `gate_counts`)."""
        return await gate_counts(self.one, ask, folder)

    def keep(self, report: Mapping[str, Any], store_file: Path) -> None:
        """Keep what a load counted at its gate, with the share of tokens that passed, and log it."""
        if not report:
            return
        counts = with_share(report)
        LOG.info(
            "%.1f %% of %d tokens passed the gate, over the steered layers", 100 * counts["share"], counts["tokens"]
        )
        if store_file.is_file():  # without responses it is removed
            try:
                write_json(store_file.with_suffix(GATE), {"interventions": self.hashes, "gate": counts})
            except OSError as error:  # no reason for a load to fail, and why it ended may be another
                LOG.warning("what passed the gate could not be kept: %s", error)

    def receipt(self, store_files: Collection[Path]) -> dict[str, Any]:
        """Return what a receipt says of the gate: the counts of the loads that wrote these store files, summed.

        A load that only finishes what another began may see a few tokens, of which none has to pass. Of loads without
        counts, as killed ones are, the receipt has the number, and `null` if all are; the log warns.
        """
        written = sorted(path for path in store_files if path.is_file())
        kept = [read_json(file) for path in written if (file := path.with_suffix(GATE)).is_file()]
        counts = [one["gate"] for one in kept if one["interventions"] == self.hashes]
        gated = [one.model for one in self.interventions if one.gate is not None]
        unknown = len(written) - len(counts) if gated else 0
        for model in gated if unknown else ():
            LOG.warning(
                "how many tokens passed the gate of `%s` is not known of %d of the %d loads that gave these answers; "
                "they may be those of the model without the intervention",
                model,
                unknown,
                len(written),
            )
        if not counts:
            return {"gate": None} if gated else {}
        passed = Counter[str]()
        for one in counts:
            passed.update(one["passed"])
        found = with_share({"tokens": sum(one["tokens"] for one in counts), "passed": dict(passed)})
        return {"gate": found | ({"loads_without_counts": unknown} if unknown else {})}

    def accept(self, receipt: Mapping[str, Any], log: Path, by_the_user: bool) -> None:
        """Raise `UserError` if no token passed the gate, and note that this study's user has read so."""
        note, gate = log.with_suffix(".gate.json"), receipt.get("gate") or {}
        # To run again after a job of this shard has said that no token passes is to accept it.
        if "loads_without_counts" in gate or (by_the_user and note.is_file() and read_json(note) == self.hashes):
            return
        try:
            for intervention in self.interventions:
                refuse_nothing_passed(intervention, gate)
        except UserError:
            write_json(note, self.hashes)
            raise


def sha256_asked(changes: Mapping[str, Any]) -> str | None:
    """Return the SHA-256 of the intervention that requests ask for; None where they ask for none.

    Args:
        changes: identities of the changes of their model (`RequestSettings.changes`).
    """
    return str(changes[LoadedIntervention.name]["sha256"]) if LoadedIntervention.name in changes else None


def with_share(counts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts of a gate with the share of tokens that passed it, over the steered layers."""
    looked_at = counts["tokens"] * len(counts["passed"])
    return {**counts, "share": sum(counts["passed"].values()) / looked_at if looked_at else 0.0}


def refusal(folder: str) -> str:
    """Return why the worker of a server refused its intervention, a sentence with a blank behind it; else nothing."""
    path = Path(folder, RECORD)
    reason = read_json(path).get("refused") if path.is_file() else None
    return f"It refused the intervention: {reason}. " if reason else ""


async def proven(intervention: CompiledIntervention, ask: PostJson, folder: str) -> dict[str, Any]:
    """Ask a started server for a few tokens; return what its worker then says: {"sha256", "mode", "layers", "fired"}.

    The first token is of a prefill step and the others are of decode steps, which on CUDA are graphs that are replayed.
    Then greedy answers with and without the intervention are compared: hooks may fire and change nothing.

    Args:
        intervention: what it was started with.
        ask: posts JSON to an endpoint of the server.
        folder: the server's private folder.

    Raises:
        UserError: if the hooks of all layers did not fire in both, or change no answer. Unsteered answers would
            otherwise count as steered.
    """
    try:
        await ask("/v1/completions", {"prompt": [0], "max_tokens": 3, "ignore_eos": True, "temperature": 0.0})
    except ConnectionError as error:
        problem = refusal(folder) or f"It does not answer: {error}. "
        raise UserError(
            f"the engine cannot be given the intervention of `{intervention.model}`. {problem}No answer was asked for"
        ) from error
    path = Path(folder, RECORD)
    record: dict[str, Any] = read_json(path) if path.is_file() else {}
    wanted = list(intervention.layers)
    if (record.get("sha256"), record.get("layers"), record.get("fired")) != (intervention.sha256, wanted, wanted):
        what = f"it says {record}" if record else "it says nothing"
        raise UserError(
            f"the engine does not show that the intervention of `{intervention.model}` is at work on layers {wanted}: "
            f"{what}. Its answers would not be steered, and none was asked for"
        )
    if await _changes_nothing(intervention, ask):
        raise UserError(
            f"the intervention of `{intervention.model}` is at work on layers {wanted} and changes nothing: "
            f"{len(PROMPTS)} greedy answers have the same log-probabilities with and without it. Its `scale` may be "
            "lost in the rounding of the engine's `dtype`; no answer was asked for"
        )
    return record


async def _changes_nothing(intervention: CompiledIntervention, ask: PostJson) -> bool:
    """Tell whether greedy answers are the same without an intervention that should change them.

    Of modes with a gate it is not known: these tokens may not pass (see `refuse_nothing_passed` for those that are
    asked). One of scale 0 should change nothing.
    """
    tensors = read_compiled(intervention.file)[1]
    strengths = [tensor for name, tensor in tensors.items() if name.rpartition(".")[2] in STRENGTHS]
    if intervention.gate is not None or not any(tensor.any() for tensor in strengths):
        return False
    for token in PROMPTS:
        asked = {"prompt": [token], "max_tokens": TOKENS, "ignore_eos": True, "temperature": 0.0, "logprobs": 0}
        # Under a salt of its own, so that the cache of prompts gives no steered request what is computed without it.
        plain = {**asked, "request_id": PLAIN, "cache_salt": PLAIN}
        found = [(await ask("/v1/completions", body))["choices"][0]["logprobs"] for body in (plain, asked)]
        if found[0]["token_logprobs"] != found[1]["token_logprobs"]:
            return False
    return True


async def gate_counts(intervention: CompiledIntervention, ask: PostJson, folder: str) -> dict[str, Any]:
    """Return {"tokens", "passed": {layer: tokens}} since it was last asked, or since the start; nothing without a gate.

    The tokens of the request that asks are not counted. Of several copies of the model one tells.

    Args:
        intervention: what the server was started with.
        ask: posts JSON to an endpoint of the server.
        folder: the server's private folder.

    Raises:
        ConnectionError: if the server does not tell.
    """
    if intervention.gate is None:
        return {}
    Path(folder, COUNTS).unlink(missing_ok=True)
    await ask("/v1/completions", {"prompt": [0], "max_tokens": 1, "temperature": 0.0, "request_id": COUNTING})
    if not Path(folder, COUNTS).is_file():
        raise ConnectionError("the worker says nothing of the gate")
    counts: dict[str, Any] = read_json(Path(folder, COUNTS))
    return counts


def refuse_nothing_passed(intervention: CompiledIntervention, counts: Mapping[str, Any]) -> None:
    """Raise `UserError` if there were tokens, and none of them passed the gate at any layer.

    Args:
        intervention: the load's.
        counts: of the loads that gave the model's answers, see `gate_counts`.
    """
    if counts.get("tokens") and not any(counts["passed"].values()):
        raise UserError(
            f"no token passed the gate of {intervention.gate:g} of `{intervention.model}` in the loads that gave these "
            "answers, so they are those of the model without the intervention: lower `gate`, or run again to take them "
            "as they are"
        )


def loaded_intervention(files: Sequence[str], folder: Path) -> LoadedIntervention:
    """Return the interventions of a load, each compiled into the file beside its card (see `Change.loaded`)."""
    cards = [(read_json(file), folder / Path(file).with_suffix(".safetensors")) for file in files]
    return LoadedIntervention([CompiledIntervention.of_card(card, str(file)) for card, file in cards])
