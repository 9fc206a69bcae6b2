"""The rules' questions about a study that has one entry of every kind, for the tests of refusal_eval/workflow/."""

from types import SimpleNamespace

from config_project import WHOLE_STUDY

from refusal_eval.study.row_sources import source_param
from refusal_eval.study.study import Study
from refusal_eval.workflow import data_stage, generation, judging, scoring, weights_stage
from refusal_eval.workflow.comparing_stage import Comparisons
from refusal_eval.workflow.correcting import Correcting
from refusal_eval.workflow.estimating import Estimating
from refusal_eval.workflow.execution_stage import Execution
from refusal_eval.workflow.judge_cards import JudgeCards
from refusal_eval.workflow.reporting import Reporting
from refusal_eval.workflow.results_stage import Results
from refusal_eval.workflow.tradeoff_stage import TradeOff

CELLS = [
    {"model": model, "split": split}
    for model in sorted(WHOLE_STUDY["models"])
    for split in sorted(WHOLE_STUDY["splits"])
]


def stages(config, root, cores=2):
    """Return what decides the jobs of each stage, by names that the tests use; params by functions of wildcards."""
    study = Study(config)

    def plain(source):
        return source.model_dump(mode="json")

    return SimpleNamespace(
        study=study,
        data=SimpleNamespace(
            source=lambda w: source_param(data_stage.fetched_sources(study)[w.source]),
            split_reading=lambda w: data_stage.split_reading(study, w.split, root),
            gold_reading=lambda w: data_stage.gold_reading(study, w.gold, root),
        ),
        estimating=Estimating(config),
        weights=SimpleNamespace(
            source=lambda w: plain(weights_stage.fetched_weights(study)[w.weights]),
            identified_entry=lambda w: weights_stage.identified_entry(study, w.engine),
            adapter_source=lambda w: plain(weights_stage.fetched_adapters(study)[w.adapter]),
            identified_adapter=lambda w: weights_stage.identified_adapter(study, w.model),
            adapted=lambda w: plain(study.engines[study.models[w.model].engine].weights),
        ),
        generation=SimpleNamespace(
            request_params=lambda w: generation.request_params(study, w.model, w.split),
            segments=lambda w: generation.segments(study, w.model),
        ),
        execution=Execution(study, root, cores),
        judging=SimpleNamespace(
            asked=lambda w: judging.asked(study, w.judge),
            reading=lambda w: judging.reading(study, w.judge),
            deciding=lambda w: judging.deciding(study, w.judge),
            panel=lambda w: judging.panel(study, w.judge),
        ),
        judge_cards=JudgeCards(config),
        comparisons=Comparisons(config),
        tradeoff=TradeOff(config),
        correcting=Correcting(config),
        scoring=SimpleNamespace(
            cell=lambda w: scoring.cell(study, w.judge, w.model, w.split),
            card=lambda w: scoring.card(study, w.judge, w.gold),
            published_reading=lambda w: scoring.published_reading(study, w.model),
            published_cell=lambda w: scoring.published_cell(study, w.judge, w.model, w.split),
        ),
        reporting=Reporting(config),
        results=Results(config),
    )


def of(**wildcards):
    """Return wildcards as Snakemake gives them."""
    return SimpleNamespace(**wildcards)
