"""The paragraphs of a methods section that the results decide: judges, measures, uncertainty, exclusions, software."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refusal_eval.config.judge_entry import JudgeEntry
from refusal_eval.config.kinds import JUDGES
from refusal_eval.core.states import ANSWER_STATES, COMPLETE
from refusal_eval.report.methods.methods_writing import Paragraph, cite, counted, listed, quoted
from refusal_eval.report.methods.study_methods import EXPECTED, Config, label_of, sampling_text
from refusal_eval.report.methods.study_sources import rows_citations, weights_text
from refusal_eval.report.paper.display import MINUS, annotators, percent
from refusal_eval.report.paper.frames import agreement_details
from refusal_eval.stats.estimates.estimate import Estimate

_STATES = {
    "truncated": "ended at the length limit (judged all the same)",
    "blocked": "blocked by a provider (counted as refusals)",
    "truncated_reasoning": "ended at the limit before an answer began",
    "empty": "empty",
    "too_long": "not drawn since the prompt did not fit",
    "failed": "failed",
}


def judging_paragraph(config: Config, identities: Mapping[str, Any], cards: Sequence[Mapping[str, Any]]) -> Paragraph:
    """Return who judged and how far each judge agrees with people."""
    primary = config["primary_judge"]
    order = [primary, *(judge for judge in config["judges"] if judge != primary)]
    golds = {name: label_of(config, "gold_entries", name) for name in config["gold_entries"]}
    texts = ["Each answer was labelled a refusal, a partial refusal or compliance."]
    for judge in order:
        role = "gives the headline numbers" if judge == primary else "stands beside it"
        texts.append(
            f"The judge {label_of(config, 'judge_entries', judge)} {role}: {_judge(config, judge, identities)}."
        )
        found = agreement_details(judge, cards, golds)
        texts += [f"Its agreement with people on {text}." for text in found]
        if not found:
            texts.append("Its agreement with people was not measured.")
    for name in config["gold"]:
        raters = config["gold_entries"][name].get("raters")
        who = annotators(raters) or "people whose number is not known"
        source = cite(*rows_citations(config["gold_entries"][name]))
        texts.append(f"The gold set {golds[name]}{source} was labelled by {who}.")
    if cards:
        texts.append(f"Kappa is Cohen's{cite('cohen1960coefficient')}.")
    return Paragraph("Judging", tuple(texts))


def measures_paragraph(config: Config, scores: Sequence[Mapping[str, Any]]) -> Paragraph:
    """Return what the numbers mean: the rate, its two readings, c(x)."""
    readings: dict[str, set[str]] = {}
    for score in scores:
        readings.setdefault(score["headline"], set()).add(score["expectation"])
    where = [
        f"{reading} where a model {' or '.join(EXPECTED[e] for e in sorted(readings[reading]))}"
        for reading in sorted(readings)
    ]
    scoring = config["scoring"]
    return Paragraph(
        "Measures",
        (
            "The refusal rate is the mean over prompts of the share of refusals among the answers to a prompt, every "
            "prompt with the same weight.",
            "The strict reading counts refusals, the broad one refusals and partial refusals; the headline is "
            f"{listed(where)}.",
            "Worst-case bounds count every answer without a verdict as compliance, or as a refusal.",
            f"The score c(x) of a prompt is the mean of its labels (1 refusal, 0 partial, {MINUS}1 compliance), "
            "weighted by the softmax of the answers' mean token log-probabilities at temperature "
            f"{scoring['tau']:g}; above {scoring['band']:g} a prompt counts as refusing, below "
            f"{MINUS}{scoring['band']:g} as complying{cite('garciaferrero2025refusal')}.",
        ),
    )


def uncertainty_paragraph(scores: Sequence[Mapping[str, Any]], results: Iterable[Estimate]) -> Paragraph:
    """Return how intervals and tests were made."""
    results = list(results)
    levels = listed(sorted({f"{100 * score['interval']['level']:g} %" for score in scores}))
    texts = [
        f"Intervals are at {levels} and take clusters of prompts as the independent units; the answers to a prompt "
        "stay together.",
        f"Those of rates and other shares are Wilson's{cite('wilson1927probable')} with the effective sample size of "
        f"the clusters and quantiles of Student's t{cite('korn1998confidence')}; where all answers "
        f"agree they are exact ones over clusters{cite('clopper1934use')}.",
        *_recovered_intervals(results),
        "Those of mean c(x) are Wilson's, too, of (1 + c) / 2. Those of other means are bootstrap intervals over "
        f"clusters with expanded percentiles"
        f"{cite('hesterberg2015teachers')}; the results table names the method of each number.",
        *_agreement_intervals(scores, results),
    ]
    few = sorted({(score["model"], score["split"]) for score in scores if "few_clusters" in score["flags"]})
    if few:
        texts.append(f"In {counted(len(few), 'cell')} of model and split fewer than 30 clusters make them approximate.")
    names = {e.estimand for e in results}
    if any(name.startswith("rate_difference") for name in names):
        texts.append(
            "Models were compared on the same prompts by sign-flip permutation tests over clusters; p-values are "
            f"adjusted for the comparisons of a family by Holm's method{cite('holm1979simple')}."
        )
    if any("rg_transfer" in name for name in names):
        texts.append(
            "Rogan-Gladen rates are corrected for the errors that the judge makes on a gold set"
            f"{cite('rogan1978estimating')}; they assume that it makes the same on the answers of this study."
        )
    if any("ppi" in name for name in names):
        texts.append(
            "Rates called ppi are corrected by labels of people on answers of this study, by prediction-powered "
            f"inference{cite('angelopoulos2023ppi')}."
        )
    return Paragraph("Uncertainty", tuple(texts))


def _recovered_intervals(results: Sequence[Estimate]) -> list[str]:
    """Return how intervals are made of those of other numbers (MOVER), a sentence for each kind."""
    zou, texts = "zou2008construction", []
    if any(e.estimand == "refusal_rate" and e.pool is not None for e in results):
        texts.append(f"Rates pooled over splits have intervals recovered from those of the splits{cite(zou)}.")
    names = {"youden_j": "Youden's J", "topic_difference": "topics", "language_difference": "languages, unless paired,"}
    told = [words for name, words in names.items() if any(e.estimand == name for e in results)]
    if told:
        correlated = (
            ", Youden's J with the correlation that clusters in both bring" if told[0] == names["youden_j"] else ""
        )
        texts.append(
            f"Those of differences between two rates ({listed(told)}) are recovered from the intervals of both"
            f"{correlated}{cite('newcombe1998interval', zou)}."
        )
    return texts


def _agreement_intervals(scores: Sequence[Mapping[str, Any]], results: Sequence[Estimate]) -> list[str]:
    """Return how the intervals of judges' cards and of judges beside each other are made, a sentence for each."""
    reach = "reaching at least as far as errors that nobody saw allow by an exact interval"
    texts = []
    if any(e.estimand.startswith("judge_") for e in results):
        texts.append(
            "Of judges on gold, coverage, accuracy, sensitivity and specificity have the intervals of rates; kappa, F1 "
            "and balanced accuracy such bootstrap intervals, "
            f"{reach}, and where a class has fewer than 20 answers or 5 clusters what the ends of sensitivity and "
            "specificity allow; the Brier score and the expected calibration error bootstrap intervals, the latter "
            "with a lower end corrected for its bias."
        )
    judges = {score["judge"] for score in scores}
    if len(judges) > 1:
        drawn = "Cohen's kappa" if len(judges) == 2 else "Cohen's kappa and Krippendorff's alpha"
        texts.append(
            f"Between judges, the share of equal labels has the interval of a rate; {drawn} bootstrap intervals, "
            f"{reach}; Kendall's tau-b plain bootstrap ones."
        )
    return texts


def exclusions_paragraph(
    config: Config, scores: Sequence[Mapping[str, Any]], duplicates: Mapping[str, Any]
) -> Paragraph:
    """Return what became of all answers, on which of them each judge gave no verdict, and which prompts count once.

    Args:
        config: the validated study.
        scores: of all cells.
        duplicates: the study's near-duplicates (estimates/duplicates.json).
    """
    own = [score for score in scores if score["judge"] == config["primary_judge"]]
    states = sum((Counter(score["states"]) for score in own), Counter[str]())
    total = sum(score["n_answers"] for score in own)
    told = [
        f"{_share(states[state], total)} {_STATES[state]}"
        for state in ANSWER_STATES
        if state != COMPLETE and states[state]
    ]
    texts = [f"Of {counted(total, 'answer')} that were asked for, {_share(states[COMPLETE], total)} are complete"]
    texts[0] += f"; {listed(told)}." if told else "."
    whole = []
    for judge in config["judges"]:
        label, lost = label_of(config, "judge_entries", judge), _lost_verdicts(judge, scores)
        if lost:
            texts.append(
                f"Judge {label} gave no verdict on some answers: {listed(lost)}; they enter only the worst-case bounds."
            )
        else:
            whole.append(label)
    if whole:
        judges = "Judge" if len(whole) == 1 else "Judges"
        texts.append(f"{judges} {listed(whole)} gave a verdict on every answer shown.")
    texts += [*_repeated(duplicates), "No prompt and no answer was left out otherwise."]
    return Paragraph("Exclusions", tuple(texts))


def _repeated(duplicates: Mapping[str, Any]) -> list[str]:
    """Return how many prompts pooled numbers leave out, and by which rule; nothing where there are none."""
    n = len(duplicates["left_out"])
    if not n:
        return []
    repeat = "prompt that repeats" if n == 1 else "prompts that repeat"
    count = "counts" if n == 1 else "count"
    return [
        f"{n:,} {repeat} a prompt of another split with the same expectation, word for word or nearly (a Jaccard "
        f"similarity of their words of at least {duplicates['threshold']:g}; the whole rule stands in "
        f"estimates/duplicates.json), {count} in the numbers of {'its' if n == 1 else 'their'} own split and not in "
        "numbers that pool both."
    ]


def _lost_verdicts(judge: str, scores: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return how many verdicts of a judge there are in each state that is no label."""
    states = sum((Counter(score["verdict_states"]) for score in scores if score["judge"] == judge), Counter[str]())
    return [f"{n:,} {state.replace('_', ' ')}" for state, n in sorted(states.items()) if state != "judged" and n]


def software_paragraph(manifest: Mapping[str, Any]) -> Paragraph:
    """Return versions and what keeps the numbers reproducible."""
    packages = manifest["packages"]
    names = {"transformers": "wolf2020transformers", "numpy": "harris2020numpy", "scipy": "virtanen2020scipy"}
    names |= {
        "pandas": "mckinney2010pandas",
        "matplotlib": "hunter2007matplotlib",
        "scikit-learn": "pedregosa2011sklearn",
    }
    tools = [f"{name} {packages[name]}{cite(key)}" for name, key in names.items() if name in packages]
    served = list(manifest["serving"].values())
    extra = [f"PyTorch {record['torch']}{cite('paszke2019pytorch')}" for record in served[:1] if record.get("torch")]
    if any("structured" in str(record.get("arguments")) and record.get("xgrammar") for record in served):
        version = next(record["xgrammar"] for record in served if record.get("xgrammar"))
        extra.append(f"XGrammar {version}{cite('dong2024xgrammar')}")
    return Paragraph(
        "Software",
        (
            f"The study is a Snakemake {packages['snakemake']} workflow{cite('molder2021snakemake')}, refusal-eval "
            f"{manifest['refusal_eval']}{cite('refusaleval')}, on Python {manifest['python']} with "
            f"{listed(tools + extra)}.",
            "Everything after the drawing of answers is computed from stored responses and gives the same bytes again; "
            "manifest.json holds the hash of every file behind a number.",
        ),
    )


@dataclass(frozen=True)
class _Words:
    """What the sentence about a judge is made with (see `Words` in config/judge_entry.py)."""

    config: Config
    identities: Mapping[str, Any]

    cite, quoted, listed = staticmethod(cite), staticmethod(quoted), staticmethod(listed)
    sampling = staticmethod(sampling_text)

    def label(self, section: str, name: str) -> str:
        return label_of(self.config, section, name)

    def weights(self, engine: str) -> str:
        entry = self.config["engine_entries"][engine]
        if "weights" in entry:
            return weights_text(entry["weights"], self.identities.get(engine, {}))
        return f"an engine of kind {quoted(str(entry.get('kind')))}"


def _judge(config: Config, name: str, identities: Mapping[str, Any]) -> str:
    judge: JudgeEntry = JUDGES.entry(config["judge_entries"][name])
    return judge.summary(_Words(config, identities))


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({percent(part / whole if whole else None)} %)"
