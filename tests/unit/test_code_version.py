"""The version of the code behind a script: what changes it, and what each script of the workflow reaches."""

import ast
import re

import pytest

from refusal_eval.core.code_version import LIBRARY, code_version, imported_modules

SCRIPT = "from lib.scores import rate\nprint(rate([1]))\n"
MODULES = {
    "__init__.py": '"""A library."""\n',
    "scores.py": '"""Scores."""\n\nfrom lib import means\n\ndef rate(z):\n    """Mean."""\n    return means.mean(z)\n',
    "means.py": "def mean(z):\n    # All of them.\n    return sum(z) / len(z)\n",
    "tables.py": "from lib.scores import rate\n",
    "weights/__init__.py": "",
    "weights/fetch.py": "",
}


def version(folder, script=SCRIPT, **changed):
    """Return the version of a script behind which a small library stands, with some of its modules changed."""
    library = folder / "lib"
    for name, text in (MODULES | {f"{name}.py": text for name, text in changed.items()}).items():
        (library / name).parent.mkdir(parents=True, exist_ok=True)
        (library / name).write_text(text)
    (folder / "script.py").write_text(script)
    return code_version(folder / "script.py", library)


@pytest.fixture
def before(tmp_path):
    return version(tmp_path / "before")


def test_a_version_is_sixteen_hex_digits_wherever_the_library_lies(tmp_path, before):
    assert re.fullmatch(r"[0-9a-f]{16}", before)
    assert version(tmp_path / "elsewhere") == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Mean."""', '"""The mean of all."""'),
        ('    """Mean."""\n', ""),
        ('"""Scores."""', '"""Scores.\n\nAnd more.\n"""'),
        ("    return", "    # A comment.\n\n    return"),
        ("means.mean(z)", "means.mean(\n        z\n    )"),
    ],
)
def test_comments_docstrings_and_layout_keep_it(tmp_path, before, old, new):
    assert old in MODULES["scores.py"]
    assert version(tmp_path / "after", scores=MODULES["scores.py"].replace(old, new)) == before


def test_a_formula_changes_it_also_behind_another_module(tmp_path, before):
    scores = MODULES["scores.py"].replace("means.mean(z)", "1 - means.mean(z)")
    means = MODULES["means.py"].replace("/ len(z)", "/ max(1, len(z))")
    versions = {before, version(tmp_path / "one", scores=scores), version(tmp_path / "two", means=means)}
    assert len(versions) == 3


def test_modules_that_are_not_imported_do_not_count(tmp_path, before):
    assert version(tmp_path / "after", tables="from lib.scores import rate\n\nEXTRA = 1\n") == before


def test_the_script_itself_does_not_count_but_what_it_imports_does(tmp_path, before):
    assert version(tmp_path / "one", script=SCRIPT + "print(2)\n") == before
    assert version(tmp_path / "two", script=SCRIPT + "def f():\n    import lib.weights.fetch\n") != before


def test_imports_inside_functions_and_the_files_of_packages_count(tmp_path):
    version(tmp_path, script="def f():\n    from lib.weights import fetch\n")
    modules = imported_modules(tmp_path / "script.py", tmp_path / "lib")
    names = [module.relative_to(tmp_path / "lib").as_posix() for module in modules]
    assert names == ["__init__.py", "weights/__init__.py", "weights/fetch.py"]


def test_a_star_or_a_whole_module_counts_like_a_name(tmp_path):
    versions = [
        version(tmp_path / f"{number}", script=script)
        for number, script in enumerate(("from lib.scores import *", "import lib.scores", SCRIPT))
    ]
    assert len(set(versions)) == 1


# What a change of which reruns a script's rule. A new name here is a new reason to run again: is it worth it?
COMMON = "__init__ errors files logs"
REACHED = {
    "make_prompts": "data data.prompts data.rows data.scripts data.selection hints texts",
    "make_gold": "data data.gold data.prompts data.rows data.scripts data.selection hints states texts",
    "fetch_rows": "data data.addresses data.card data.fetch data.hub data.locked data.network data.resume data.rows "
    "data.sources data.wheels hints texts yaml_files",
    "fetch_tokenizer": "data data.hub data.locked data.network data.resume data.sources weights weights.fetch "
    "weights.fingerprint weights.manifest yaml_files",
    "fetch_weights": "data data.hub data.locked data.network data.resume data.sources data.wheels engines "
    "engines.environment hints weights weights.converted weights.fetch weights.fingerprint "
    "weights.manifest yaml_files",
    "identify_engine": "data data.sources engines engines.environment keys weights weights.batch_invariance "
    "weights.engine_file weights.fingerprint weights.identity weights.manifest weights.serving_args",
    "fetch_adapter": "data data.hub data.locked data.network data.resume data.sources keys weights "
    "weights.adapter weights.fingerprint weights.manifest weights.tensors yaml_files",
    "identify_adapter": "data data.hub data.network data.resume data.sources keys weights weights.adapter "
    "weights.fingerprint weights.manifest weights.tensors",
    "check_adapter": "data data.hub data.network data.resume data.sources keys weights weights.adapter "
    "weights.adapter_base weights.fingerprint weights.manifest weights.tensors",
    "render_requests": "compat compat.requests dialogues keys render requests states",
    "execute": "answer_reader answers data data.sources devices devices.lease devices.pool devices.smi dialogues "
    "engines engines.base engines.classifier engines.client engines.command engines.environment "
    "engines.feeding engines.guard engines.kinds engines.nodes engines.orphans engines.private_folder "
    "engines.process engines.records engines.server engines.server_process engines.vllm engines.watch "
    "execute following judges judges.base judges.reasoned judges.retries judges.rubric keys memory "
    "other_runs packing pending plan progress reasoning reasoning_check render requests running_jobs "
    "secret_names slurm states store store_index time_limit turns weights weights.identity "
    "weights.manifest weights.serving_args",
    "collect_answers": "answer_reader answers dialogues keys packing reasoning reasoning_check render requests "
    "states store store_index turns",
    "check_judge": "hints judges judges.base judges.classifier judges.kinds judges.llm judges.reasoned "
    "judges.rubric judges.shares judges.wildguard keys packing reasoning render states texts",
    "render_judge_requests": "answer_reader answers dialogues hints judges judges.base judges.classifier "
    "judges.conversations judges.cutting judges.kinds judges.llm judges.reasoned judges.retries "
    "judges.rubric judges.shares judges.wildguard keys packing reasoning render requests states texts",
    "collect_verdicts": "answer_reader answers calibration calibration.apply compat compat.last_match dialogues "
    "following hints judges judges.base judges.classifier judges.llm judges.published judges.reading judges.reasoned "
    "judges.retries judges.rubric judges.shares judges.votes judges.wildguard keys packing reasoning render "
    "requests states store store_index turns texts",
    "judge_on_cpu": "dialogues hints judges judges.base judges.conversations judges.keyword judges.keyword_forms "
    "judges.keyword_lists judges.keyword_wrapped judges.python judges.trained states texts yaml_files",
    "score_cell": "compat compat.fixed compat.score_rows dialogues estimands intervals jsonl samples scores states "
    "texts",
    "find_duplicates": "clusters estimates estimates.near_duplicates markup texts",
    "make_estimates": "clusters dialogues estimands estimate estimates estimates.bootstrap estimates.cells "
    "estimates.components estimates.dispersion estimates.near_duplicates estimates.pooled "
    "estimates.tau_sweep estimates.units estimates.variance intervals samples scores states texts",
    "split_variance": "clusters dialogues estimands estimate estimates estimates.bootstrap estimates.components "
    "estimates.units estimates.variance intervals samples scores states texts",
    "published_answers": "answer_reader answers compat compat.elementary compat.fixed compat.float32 "
    "compat.responses compat.scores compat.segments dialogues keys packing reasoning render "
    "requests states store store_index turns",
    "recorded_answers": "answer_reader answers compat compat.fixed compat.float32 compat.recorded "
    "compat.recorded_folder compat.scores compat.segments judges judges.base keys packing reasoning "
    "reasoning_check render requests states texts",
    "recorded_verdicts": "answers compat compat.fixed compat.float32 compat.recorded compat.recorded_folder "
    "compat.scores compat.segments judges judges.base packing reasoning states texts",
    "published_scores": "compat compat.cell compat.effects compat.fixed compat.float32 compat.responses "
    "compat.last_match compat.recorded_folder compat.scores compat.segments compat.verdicts dialogues estimands "
    "intervals packing scores states texts",
    "make_effects_table": "compat compat.effects compat.effects_table compat.fixed compat.float32 compat.labels "
    "compat.responses compat.scores compat.segments dialogues display estimands "
    "intervals latex latex_columns latex_text markup packing scores states texts",
    "make_judge_card": "agreement calibration calibration.apply calibration.cards calibration.cross_fit "
    "calibration.fit dialogues estimands intervals judge_card judge_card.compared "
    "judge_card.measured judge_card.measures judge_card.resampling judge_card.soft "
    "judge_card.weighting judges judges.base states",
    "make_tables": "agreement compat compat.labels dialogues display estimands estimate frames intervals "
    "judge_card judge_card.compared judge_card.measured judge_card.measures "
    "judge_card.resampling judge_card.soft judge_card.weighting latex latex_columns latex_text "
    "markup paper_tables paper_tables.best paper_tables.categories paper_tables.check "
    "paper_tables.repeated results_table results_table.collect results_table.columns results_table.files "
    "results_table.from_scores scores states table_notes tables texts",
    "make_figures": "agreement compat compat.labels dialogues display estimands frames intervals judge_card "
    "judge_card.compared judge_card.measured judge_card.measures judge_card.reliability "
    "judge_card.resampling judge_card.soft judge_card.weighting judge_card.words judges_agree "
    "judges_agree.figure latex_text layout markup plots plots.captions plots.categories "
    "plots.curves plots.estimates plots.forest plots.heatmap plots.histograms plots.judges plots.kinds "
    "plots.model_rows plots.numbering plots.panels plots.placeholder plots.plot "
    "plots.refusal_kinds plots.series plots.sources plots.tags plots.tau_sweep plots.tradeoff "
    "plots.turns scores states style table_notes "
    "tiles texts",
    "write_manifest": "packing store store_index version",
    "check_judge_floor": "judge_card judge_card.floor",
    "compare_judges": "agreement clusters compat compat.labels dialogues display estimands frames intervals judge_card "
    "judge_card.compared judge_card.measured judge_card.measures judge_card.resampling "
    "judge_card.soft judge_card.weighting judge_card.words judges_agree judges_agree.alpha "
    "judges_agree.disagreements judges_agree.pairs judges_agree.panel judges_agree.ranking "
    "judges_agree.tables latex latex_columns latex_text markup paper_tables paper_tables.repeated "
    "scores states table_notes texts",
    "make_comparisons": "agreement comparisons comparisons.computed comparisons.decisions comparisons.families "
    "comparisons.halves "
    "comparisons.paired comparisons.panel comparisons.resampling comparisons.sign_flips "
    "comparisons.tables compat compat.labels dialogues display estimands estimate estimates "
    "clusters estimates.near_duplicates frames "
    "intervals judge_card judge_card.compared judge_card.measured judge_card.measures "
    "judge_card.resampling judge_card.soft judge_card.weighting latex latex_columns latex_text "
    "markup paper_tables paper_tables.repeated scores states table_notes texts",
    "make_calibration": "agreement calibration calibration.apply calibration.cards calibration.cross_fit "
    "calibration.fit dialogues estimands intervals judge_card judge_card.compared "
    "judge_card.measured judge_card.measures judge_card.resampling judge_card.soft "
    "judge_card.weighting judges judges.base states",
    "make_judge_figures": "dialogues display estimands intervals judge_card judge_card.compared judge_card.figure "
    "judge_card.measured judge_card.measures judge_card.reliability judge_card.resampling "
    "judge_card.weighting judge_card.words layout states style tiles",
    "make_judge_tables": "agreement compat compat.labels dialogues display estimands frames intervals judge_card "
    "judge_card.compared judge_card.measured judge_card.measures judge_card.resampling "
    "judge_card.soft judge_card.tables judge_card.weighting judge_card.words latex "
    "latex_columns latex_text markup paper_tables paper_tables.repeated scores states table_notes texts",
    "panel_verdicts": "judges judges.base judges.votes states",
    "train_judge": "hints intervals judge_card judge_card.weighting judges judges.base judges.keyword "
    "judges.keyword_forms judges.keyword_lists judges.keyword_wrapped judges.trained states texts "
    "yaml_files",
    "make_results_table": "dialogues display estimands estimate intervals markup results_table results_table.collect "
    "results_table.columns results_table.definition results_table.definitions "
    "results_table.dictionary results_table.files results_table.flags results_table.from_agreement "
    "results_table.from_scores "
    "results_table.of_analyses results_table.of_scores scores states texts",
    "make_methods": "agreement dialogues display estimands estimate frames intervals judge_card "
    "judge_card.compared judge_card.measured judge_card.measures judge_card.resampling "
    "judge_card.soft judge_card.weighting latex_text markup methods methods.bibliography "
    "methods.numbers methods.sources methods.study methods.writing plan results_table "
    "results_table.collect results_table.columns results_table.files scores states texts",
    "make_tradeoff": "agreement clusters compat compat.labels dialogues display estimands estimate estimates "
    "estimates.near_duplicates estimates.units frames intervals judge_card judge_card.compared "
    "judge_card.measured judge_card.measures judge_card.resampling judge_card.soft "
    "judge_card.weighting judge_card.words latex latex_columns latex_text markup scores states "
    "table_files table_notes tradeoff tradeoff.draws tradeoff.joint tradeoff.languages tradeoff.models "
    "tradeoff.pairs tradeoff.pooled tradeoff.rows tradeoff.study tradeoff.tables "
    "tradeoff.topics tradeoff.topics_table tradeoff.words texts",
    "make_corrected": "agreement calibration calibration.apply calibration.cards calibration.cross_fit "
    "calibration.fit clusters compat compat.labels corrected corrected.error_rates corrected.gold_rows "
    "corrected.labels corrected.ppi corrected.study corrected.tables corrected.transfer "
    "dialogues display estimands estimate estimates estimates.near_duplicates estimates.units "
    "frames intervals judge_card judge_card.compared judge_card.measured judge_card.measures "
    "judge_card.resampling judge_card.soft judge_card.weighting judges "
    "judges.base latex latex_columns latex_text markup scores states table_files table_notes tradeoff "
    "tradeoff.draws tradeoff.rows tradeoff.words texts",
}


def rule_scripts(repository):
    """Return the names of the scripts that the rules run."""
    rules = [path.read_text(encoding="utf-8") for path in (repository / "workflow" / "rules").glob("*.smk")]
    return {name for rule in rules for name in re.findall(r'"\.\./\.\./scripts/(\w+)\.py"', rule)}


def test_what_each_script_of_the_workflow_reaches(repository):
    assert rule_scripts(repository) == set(REACHED)
    for name, wanted in REACHED.items():
        modules = imported_modules(repository / "scripts" / f"{name}.py")
        parts = [module.relative_to(LIBRARY).with_suffix("").as_posix().replace("/", ".") for module in modules]
        found = {part.removesuffix(".__init__") for part in parts}
        assert found == {*COMMON.split(), *wanted.split()}, name


def test_no_script_of_the_workflow_reaches_what_plans_it(repository):
    # An edited rule or a new key of the config would otherwise rerun every study.
    for name in rule_scripts(repository):
        modules = imported_modules(repository / "scripts" / f"{name}.py")
        assert not [module for module in modules if module.relative_to(LIBRARY).parts[0] in ("workflow", "config")]


def test_the_library_has_no_relative_imports_which_would_not_be_followed():
    for module in LIBRARY.rglob("*.py"):
        tree = ast.parse(module.read_text(encoding="utf-8"))
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level], module
