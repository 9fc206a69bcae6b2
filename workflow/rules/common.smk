"""The validated study, its folders, and what the rules ask about it: the functions of scripts/refusal_eval/workflow/."""

from snakemake import __version__ as SNAKEMAKE
from snakemake.dag import DAG
from snakemake.logging import logger

from refusal_eval.core.code_version import changed_code, code_version
from refusal_eval.config.load_study import load_study, refuse_merged
from refusal_eval.config.problems import ConfigError
from refusal_eval.core.errors import UserError
from refusal_eval.core.surroundings import about_strangers
from refusal_eval.features import rules_of_features
from refusal_eval.study.batches import GOLD, Cell
from refusal_eval.study.files import asked_files
from refusal_eval.study.snakemake_records import about_lost_records
from refusal_eval.study.study import Study
from refusal_eval.study.study_folder import record_study
from refusal_eval.workflow import report_stage
from refusal_eval.workflow.ancient_inputs import VERSIONS, ask_jobs_behind_ancient_inputs
from refusal_eval.workflow.answer_lengths import about_lengths
from refusal_eval.workflow.cluster import about_cpu_build, submits
from refusal_eval.workflow.left_over import about_left_over, left_over
from refusal_eval.workflow.rule_files import any_of, content_hash, folder_not_there
from refusal_eval.workflow.whole_study import labels_of

ask_jobs_behind_ancient_inputs(DAG, SNAKEMAKE)
if SNAKEMAKE not in VERSIONS and workflow.is_main_process:
    logger.warning(
        f"This workflow was tried with Snakemake {' and '.join(VERSIONS)}, and this is {SNAKEMAKE}: after an interrupted run "
        f"it may leave changed cells with their old answers. `make setup` installs {VERSIONS[-1]}."
    )

if len(workflow.overwrite_configfiles) > 1:
    raise WorkflowError("Give one --configfile: a study file is complete and is never merged with another.")
STUDY_FILE = str((workflow.overwrite_configfiles or workflow.configfiles or [ROOT / "config" / "config.yaml"])[-1])

try:
    refuse_merged(config, STUDY_FILE, workflow.config_settings.config)
    validated = load_study(config, STUDY_FILE, str(ROOT))
    study = Study(validated)
except (ConfigError, UserError) as error:
    raise WorkflowError(str(error))
config.clear()
config.update(validated)

paths = study.paths

if workflow.is_main_process and (message := about_lost_records(paths.results)):
    raise WorkflowError(message)

if workflow.is_main_process and (warning := about_cpu_build(config["engine_entries"], ROOT, submits(workflow))):
    logger.warning(warning)

if workflow.is_main_process and (warning := about_strangers()):
    logger.warning(warning)

if workflow.is_main_process and (warning := about_lengths(study)):
    logger.warning(warning)

RESULTS, LOGS, CACHE = paths.results, paths.logs, paths.cache
# Names in alphabetical order, for what does not depend on the order in which the study lists them; cells are in that.
MODELS, SPLITS, JUDGES, GOLD_SETS = (sorted(config[names]) for names in ("models", "splits", "judges", "gold"))
CELLS = [str(cell) for cell in study.cells]  # judge/model/split
