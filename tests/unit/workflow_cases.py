"""The rules' questions about a study that has one entry of every kind, for the tests of refusal_eval/workflow/."""

from types import SimpleNamespace

from config_project import WHOLE_STUDY

from refusal_eval.study.study import Study
from refusal_eval.workflow import (
    analyses_stage,
    data_stage,
    execution_stage,
    generation,
    judging,
    scoring,
    tables_stage,
    weights_stage,
)
from refusal_eval.workflow.whole_study import labels_of

CELLS = [
    {"model": model, "split": split}
    for model in sorted(WHOLE_STUDY["models"])
    for split in sorted(WHOLE_STUDY["splits"])
]


# Functions of the study alone.
OF_STUDY = ("duplicates", "variance", "mixed_model", "comparisons", "tradeoff", "corrected", "agreement", "floors")


def _of_study(name, study):
    return lambda wildcards: getattr(analyses_stage, name)(study)


def _of_wildcards(study):
    return {
        "estimates": lambda wildcards: analyses_stage.estimates(study, wildcards),
        "calibration": lambda wildcards: analyses_stage.calibration(study, wildcards),
        "card_figure": lambda wildcards: {
            "labels": labels_of(study, ["judge", "gold"]),
            "threshold": analyses_stage.threshold(study, wildcards.judge),
        },
        "results": lambda wildcards: analyses_stage.results(study, analyses_stage.estimate_files(study)),
    }


def _of_table(name, study):
    return lambda wildcards: tables_stage.params(study, of(table=name))


def stages(config, root, cores=2):
    """Return what decides the jobs of each stage, by names that the tests use; params by functions of wildcards."""
    study = Study(config)

    def plain(source):
        return source.model_dump(mode="json")

    return SimpleNamespace(
        study=study,
        data=SimpleNamespace(
            source=lambda w: data_stage.fetched_sources(study)[w.source].param(),
            split_reading=lambda w: data_stage.split_reading(study, w.split, root),
            gold_reading=lambda w: data_stage.gold_reading(study, w.gold, root),
        ),
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
        execution=SimpleNamespace(
            engine=lambda w: execution_stage.engine_file(study, w.batch),
            weights=lambda w: execution_stage.weights(study, w.batch),
            threads=lambda w: execution_stage.threads(study, w.batch, root, cores, 8, False),
            gpus=lambda w, input: execution_stage.gpus(study, w.batch, w.load, root, input.requests),
            nodes=lambda w, input: execution_stage.nodes(
                study, w.batch, execution_stage.gpus(study, w.batch, w.load, root, input.requests)
            ),
        ),
        judging=SimpleNamespace(
            asked=lambda w: judging.asked(study, w.judge),
            reading=lambda w: judging.reading(study, w.judge, w.model),
            deciding=lambda w: judging.deciding(study, w.judge),
            panel=lambda w: judging.panel(study, w.judge),
        ),
        scoring=SimpleNamespace(
            cell=lambda w: scoring.cell(study, w.judge, w.model, w.split),
            card=lambda w: scoring.card(study, w.judge, w.gold),
            published_reading=lambda w: scoring.published_reading(study, w.model),
            published_cell=lambda w: scoring.published_cell(study, w.judge, w.model, w.split),
        ),
        analyses=SimpleNamespace(**{name: _of_study(name, study) for name in OF_STUDY}, **_of_wildcards(study)),
        tables=SimpleNamespace(**{name: _of_table(name, study) for name in tables_stage.TABLES}),
    )


def of(**wildcards):
    """Return wildcards as Snakemake gives them."""
    return SimpleNamespace(**wildcards)
