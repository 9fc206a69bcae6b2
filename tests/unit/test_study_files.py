"""The table of a study's files: one row for each noun, which says what the rules make."""

import importlib
import os
import re
from pathlib import Path

import pytest
from config_project import OF_ACTIVATIONS, WHOLE_STUDY
from snakemake.api import SnakemakeApi
from snakemake.io import strip_wildcard_constraints
from snakemake.settings.types import ConfigSettings, OutputSettings, Quietness, ResourceSettings

from refusal_eval.config.kinds import ANALYSES, FIGURES, TABLES
from refusal_eval.core.errors import UserError
from refusal_eval.features import FEATURES
from refusal_eval.study.files import (
    KERNEL,
    asked_files,
    file_of,
    file_table,
    is_job_of_study,
    job_files,
    made_files,
    refuse_unknown_needs,
)
from refusal_eval.study.study import Study

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    """Return the rules of the workflow, by name: the patterns of their outputs and of their logs."""
    before = Path.cwd()
    config = ConfigSettings(configfiles=[ROOT / "config" / "studies" / "steering.yaml"])
    try:
        with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
            workflow = api.workflow(
                resource_settings=ResourceSettings(cores=1),
                config_settings=config,
                snakefile=ROOT / "Snakefile",
                workdir=tmp_path_factory.mktemp("rules"),
            )
            workflow.dag()
            # The API lists rules by their names alone.
            return {rule.name: (_patterns(rule.output), _patterns(rule.log)) for rule in workflow._workflow.rules}
    finally:
        os.chdir(before)


def _patterns(files):
    """Return patterns as the table has them."""
    plain = [strip_wildcard_constraints(str(file)) for file in files]
    return {re.sub(r"^results/steering/", "", re.sub(r"^\.cache/", "{cache}/", path)) for path in plain}


@pytest.fixture
def study(project):
    """Return a study with most that a study can have."""
    return Study(project.load(WHOLE_STUDY | OF_ACTIVATIONS | {"tables": ["protocol_effects"]}))


def of_gold(path):
    """Return the path of verdicts on gold as one of a model: a rule that makes only these writes its name."""
    return path.replace("{judge}/gold/", "{judge}/{model}/")


def test_every_file_of_a_rule_has_a_row_and_every_row_a_rule(rules):
    made = {name: {of_gold(path) for path in outputs} for name, (outputs, _) in rules.items() if outputs}
    said = dict[str, set[str]]()
    for file in file_table().values():
        for rule in file.rules:
            said.setdefault(rule, set()).update(file.patterns)
    assert said == made


def test_the_jobs_of_a_rule_are_called_by_the_names_in_the_files_of_its_row(rules):
    # A rule that makes files of several rows is called by one of them.
    logs = {
        rule: {"/".join(["logs", file.logs, *(f"{{{name}}}" for name in file.wildcards)]) + ".log"}
        for file in file_table().values()
        for rule in file.rules
    }
    assert {rule: {of_gold(path) for path in log} for rule, (_, log) in rules.items() if rule in logs} == logs


def test_nouns_that_share_a_rule_differ_in_their_files():
    patterns = [(rule, pattern) for file in file_table().values() for rule in file.rules for pattern in file.patterns]
    assert len(patterns) == len(set(patterns))


def test_a_row_of_a_feature_follows_one_that_is_there_without_other_features():
    for feature in FEATURES:
        own = getattr(importlib.import_module(f"refusal_eval.features.{feature}"), "FILES", {})
        assert {file_of(noun).after for noun in own} <= {*KERNEL, *own}
        assert not set(KERNEL) & set(own)


def test_a_study_makes_a_file_once_and_names_its_jobs(study):
    files = made_files(study)
    paths = [
        path
        for noun, file in file_table().items()
        for names in file.names(study)
        for path in study.paths.all_of(noun, **dict(zip(file.wildcards, names, strict=True)))
    ]
    assert set(files) == set(paths)
    jobs = job_files(study)
    assert jobs["answers", "plain", "hub-rows"] == "results/large/answers/plain/hub-rows.jsonl"
    assert jobs["separation", "aqi", "far"] == "results/large/separation/aqi/far.csv"
    assert jobs["figures", "tradeoff"] == "results/large/figures/tradeoff.svg"
    assert ("train_judge", "reader") not in jobs and is_job_of_study(["train_judge", "reader"])
    assert not is_job_of_study(["export", "plain"]) and not is_job_of_study(["tables"])


def test_what_only_prompts_of_a_direction_wait_for_is_asked_for_as_well(project):
    side = {"split": "url-rows", "judge": "both", "above": 0.1, "without": ["talk-rows"]}
    far = {"name": "far", "models": ["plain"], "positive": side, "negative": {"split": "hub-rows"}}
    found = set(asked_files(Study(project.load(WHOLE_STUDY | {"separation": [far]}))))
    results = "results/large"
    assert f"{results}/prompts/talk-rows.jsonl" in found
    assert f"{results}/scores/both/plain/url-rows.parquet" in found
    assert {f"{results}/verdicts/{judge}/plain/url-rows.jsonl" for judge in ("words", "own", "both")} <= found
    assert f"{results}/scores/words/plain/url-rows.parquet" not in found


def test_nobody_asks_for_what_a_finished_study_can_be_without(study):
    assert not [path for path in asked_files(study) if "/receipts/" in path or "/checked/" in path]
    assert all(path.startswith("results/large/") for path in asked_files(study))


def test_a_noun_that_there_is_not_is_an_error_with_the_nearest(study):
    with pytest.raises(UserError, match="there are no files called `verdict`; did you mean `verdicts`"):
        study.paths.of("verdict", judge="words", model="plain", split="hub-rows")


def test_shipped_tables_and_figures_are_made_of_what_there_is():
    refuse_unknown_needs()


@pytest.mark.parametrize(
    ("registry", "attribute", "value", "message"),
    [
        (TABLES, "needs", ("card", "estimates"), "needs: there is no `card`; did you mean `cards`?"),
        (TABLES, "needs", ("tradeof",), "needs: there is no `tradeof`; did you mean `tradeoff`?"),
        (TABLES, "needs", ("separation",), "needs: there is no `separation`"),  # a table shows none
        (TABLES, "of_analysis", "variances", "of_analysis: there is no `variances`; did you mean `variance`?"),
        (FIGURES, "needs", ("publishd",), "needs: there is no `publishd`; did you mean `published`?"),
        (ANALYSES, "name", "scores", "name: other files of a study are called `scores`; choose another name"),
    ],
)
def test_a_table_figure_or_analysis_of_ones_own_with_a_wrong_noun_is_refused(
    monkeypatch, project, registry, attribute, value, message
):
    shipped = {TABLES: "states", FIGURES: "heatmap", ANALYSES: "variance"}[registry]
    own = type(
        "Own", (), {"name": "own", "needs": (), attribute: value, "__module__": registry.get(shipped).__module__}
    )
    monkeypatch.setitem(registry._added, value if attribute == "name" else "own", own)
    config = project.load(WHOLE_STUDY)
    monkeypatch.setitem(registry._added, value if attribute == "name" else "own", own)  # loading forgets them
    with pytest.raises(UserError, match=re.escape(f": Own.{message}")):
        Study(config | {"plugins": ["own.py"]})
