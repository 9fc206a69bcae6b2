"""What the rules in workflow/rules/judge.smk ask: what judges read, their batches, and how a verdict is decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refusal_eval.judges.wildguard_judge import TEMPLATE
from refusal_eval.study.batches import GOLD, TRAINED, Cell, batch_names, judging_batches
from refusal_eval.study.paths import Paths
from refusal_eval.workflow.content import content_hash
from refusal_eval.workflow.judge_notes import flags_of
from refusal_eval.workflow.rendering import rendering_params, template_file
from refusal_eval.workflow.scoring import CALIBRATED, calibrated_on, calibration_file

SHOWN = ("label", "floor")  # in tables, and at the end of a run
RAW_THRESHOLD = 0.5
# What of an entry a judge's requests depend on, and what only the reading of its responses.
ASKED: dict[str, tuple[str, ...]] = {
    "llm": ("labels", "prefill"),
    "reasoned": ("sampling", "votes", "retries", "reasoning", "form"),
    "wildguard": (),
    "classifier": ("labels",),
}
DECIDED: dict[str, tuple[str, ...]] = {
    "llm": ("threshold", "mass_floor"),
    "reasoned": ("reasoning", "form"),
    "wildguard": (),
    "classifier": ("threshold",),
}
# Of kinds with a format of their own: what else rendering asks.
FORMATS: dict[str, dict[str, Any]] = {
    "wildguard": {"system_prompt": None, "template": str(TEMPLATE), "template_options": {}, "date": "2026-01-01"},
    "classifier": {"system_prompt": None, "template_options": {}, "date": "2026-01-01"},
}


class Judging:
    """From answers to verdicts.

    Args:
        config: the validated study.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._paths = Paths(config)
        self.batches = judging_batches(config)
        self._batch_names = batch_names(self.batches)

    def prompts(self, wildcards: Any) -> str:
        """Return the prompts behind the answers of a cell; of gold they are in the gold file itself."""
        folder = "gold" if wildcards.model == GOLD else "prompts"
        return f"{self._paths.results}/{folder}/{wildcards.split}.jsonl"

    def engine(self, wildcards: Any) -> str:
        """Return the identity file of a judge's engine."""
        return self._paths.engine(self._entry(wildcards)["engine"])

    def rubric(self, wildcards: Any) -> list[str]:
        """Return a judge's rubric, as a list for `input`: empty for a judge with a format of its own."""
        entry = self._entry(wildcards)
        return [str(entry["rubric"])] if "rubric" in entry else []

    def template(self, wildcards: Any) -> list[str]:
        """Return the template file that a judge brings along, if any."""
        return template_file(self._rendered(wildcards))

    def reading(self, wildcards: Any) -> dict[str, Any]:
        """Return what decides what a judge is asked."""
        entry = self._rendered(wildcards)
        asked = {name: entry[name] for name in ASKED[entry["kind"]]}
        if "rubric" in entry:
            asked |= {"rubric": str(entry["rubric"]), "rubric_sha256": content_hash(entry["rubric"])}
        if entry["kind"] == "classifier":
            asked["frame"] = True
        if "votes" in entry:
            asked["seed"] = self._config["seed"]
        return rendering_params(self._config, entry) | {"kind": entry["kind"]} | asked

    def requests(self, wildcards: Any) -> list[str]:
        """Return the request files of a batch."""
        cells = self.batches[wildcards.batch]
        return [f"{self._paths.results}/judge_requests/{cell.judge}/{cell.model}/{cell.split}.jsonl" for cell in cells]

    def receipts(self, wildcards: Any) -> list[str]:
        """Return the receipts of the batch that holds a cell."""
        batch = self._batch_names[Cell(wildcards.model, wildcards.split, wildcards.judge)]
        return self._paths.receipts("judge", batch)

    def decision(self, wildcards: Any) -> dict[str, Any]:
        """Return what turns a judge's responses into a verdict."""
        entry = self._entry(wildcards)
        trust = self._config["engine_entries"][entry["engine"]].get("trust_remote_code", False)
        decided = {name: entry[name] for name in DECIDED[entry["kind"]]}
        if decided.get("threshold") == CALIBRATED:
            decided["threshold"] = RAW_THRESHOLD  # of the judge's own label, which only tells refusal from partial
        return {"kind": entry["kind"], "trust_remote_code": trust} | decided

    def calibration(self, wildcards: Any) -> list[str]:
        """Return the calibration of a judge that asks for one, as a list for `input`; gold is read without it."""
        gold = calibrated_on(self._config, wildcards.judge)
        if gold is None or wildcards.model == GOLD:
            return []
        return [calibration_file(self._config, wildcards.judge, gold)]

    def members(self, wildcards: Any) -> list[str]:
        """Return the verdicts of a panel's members on one cell."""
        folder = f"{self._paths.results}/verdicts"
        cell = f"{wildcards.model}/{wildcards.split}.jsonl"
        return [f"{folder}/{member}/{cell}" for member in self._entry(wildcards)["members"]]

    def panel(self, wildcards: Any) -> dict[str, Any]:
        """Return what of a panel's entry decides its verdicts, and the flags that each of its members can raise."""
        entry = {key: value for key, value in self._entry(wildcards).items() if key not in SHOWN}
        return entry | {"flags": {member: flags_of(self._config, member) for member in entry["members"]}}

    def cpu_judge(self, wildcards: Any) -> dict[str, Any]:
        """Return what of a CPU judge's entry decides its verdicts, and the content of its files."""
        entry = {key: value for key, value in self._entry(wildcards).items() if key not in SHOWN}
        return entry | {"sha256": [content_hash(path) for path in self.cpu_judge_files(wildcards)]}

    def cpu_judge_files(self, wildcards: Any) -> list[str]:
        """Return the keyword lists of a judge, or the file with the user's function."""
        entry = self._entry(wildcards)
        return [entry["file"]] if entry["kind"] == "python" else list(entry["lists"])

    def trained_model(self, wildcards: Any) -> list[str]:
        """Return the fitted model of a trained judge, as a list for `input`: empty for others."""
        folder = f"{self._paths.results}/judges/{wildcards.judge}"
        return [f"{folder}/model.npz"] if self._entry(wildcards)["kind"] == TRAINED else []

    def unseen(self, wildcards: Any) -> list[str]:
        """Return a trained judge's verdicts on gold that it was fitted on, as a list for `input`: else empty."""
        entry = self._entry(wildcards)
        own = entry["kind"] == TRAINED and wildcards.model == GOLD and wildcards.split in entry["gold"]
        return [f"{self._paths.results}/judges/{wildcards.judge}/out_of_fold.jsonl"] if own else []

    def training_gold(self, wildcards: Any) -> list[str]:
        """Return the gold that a trained judge learns from."""
        return [f"{self._paths.results}/gold/{gold}.jsonl" for gold in self._entry(wildcards)["gold"]]

    def _rendered(self, wildcards: Any) -> dict[str, Any]:
        """Return a judge's entry with all that rendering asks, also where its kind fixes it."""
        entry = self._entry(wildcards)
        return FORMATS.get(entry["kind"], {}) | entry

    def _entry(self, wildcards: Any) -> dict[str, Any]:
        entry: dict[str, Any] = self._config["judge_entries"][wildcards.judge]
        return entry
