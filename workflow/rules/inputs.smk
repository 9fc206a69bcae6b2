"""Functions that rules call for the inputs and params of a job, stage by stage; a short one stands in its rule as a lambda."""

from functools import cache

from refusal_eval.config.kinds import JUDGES as JUDGE_KINDS
from refusal_eval.core.recorded_files import ANSWERS, JUDGE_SCORES
from refusal_eval.workflow import activations_stage, cluster, data_stage, execution_stage, generation, judging
from refusal_eval.workflow import scoring, weights_stage
from refusal_eval.workflow.cluster import about_jobs, jobs_of_earlier_runs

# Data


def rows_of(entries):
    """Return an input function: the file with the rows of the split or gold that a job is about."""
    noun = entries.removesuffix("_entries")
    return lambda wildcards: data_stage.rows_file(
        study, study.entries(noun)[wildcards[noun]].source, ROOT, wildcards[noun]
    )


def answers_made_of(wildcards):
    """Return the files with the answers, or the verdicts on them, that the rows of a split are made of."""
    return data_stage.answer_files(study, wildcards.split)


def row_files(wildcards):
    """Return the files that decide the rows of a split, besides what these are made of."""
    return study.entries("split")[wildcards.split].source.files()


def clusters_of(entries):
    """Return an input function: the file with the clusters of these rows, if there is one."""
    noun = entries.removesuffix("_entries")
    # A list, as scripts take none or one of it: a path alone would be taken apart.
    return lambda wildcards: list(filter(None, [config[entries][wildcards[noun]].get("clusters")]))


# Weights


def fetched_weights(wildcards):
    """Return the source of the weights behind a folder of the cache."""
    return study.fetched("engines")[wildcards.weights]


# Generation


def model_engine(wildcards):
    """Return the identity file of a model's engine."""
    return paths.of("engines", engine=study.every_model[wildcards.model].engine)


def generation_receipts(wildcards):
    """Return the receipts of the batch that holds a cell."""
    return paths.receipts("generate", study.batch_of[Cell(wildcards.model, wildcards.split)])


# Engine loads, of generation and of judging


def load_engine(wildcards):
    """Return the identity file of a batch's engine."""
    return paths.of("engines", engine=execution_stage.engine_of(wildcards.batch))


def load_weights(wildcards):
    """Return what must be there before a batch's engine can start."""
    return weights_stage.weights_files(study, execution_stage.engine_of(wildcards.batch))


def threads_of(engine):
    """Return the threads of a load of an engine."""
    machine = (workflow.resource_settings.cores, cluster.gpu_limit(workflow), cluster.submits(workflow))
    return execution_stage.threads(study, engine, ROOT, *machine)


def load_threads(wildcards):
    """Return the threads of an engine load."""
    return threads_of(execution_stage.engine_of(wildcards.batch))


def load_gpus(wildcards, input):
    """Return the GPUs of an engine load; none when the store already has every response."""
    return execution_stage.gpus(study, wildcards.batch, wildcards.load, ROOT, input.requests)


def load_nodes(wildcards, input):
    """Return the machines of an engine load, which Slurm's plugin asks for; one for a job without GPUs."""
    engine = study.engines[execution_stage.engine_of(wildcards.batch)]
    return engine.nodes_used() if load_gpus(wildcards, input) else 1


def load_gpu_model(wildcards, input):
    """Return the GPU model that a cluster's profile names, for a load that needs GPUs."""
    return cluster.gpu_model(workflow, load_gpus(wildcards, input))


def load_partition(wildcards, input):
    """Return the partition that a cluster's profile names for a load."""
    return cluster.partition(workflow, load_gpus(wildcards, input))


def load_options(wildcards):
    """Return the options of a load, or of capturing, for a cluster's scheduler."""
    return cluster.options(workflow, wildcards, earlier_jobs())


@cache
def earlier_jobs():
    """Return the loads and captures of this study that earlier runs left on the cluster; none unless this run submits jobs."""
    return jobs_of_earlier_runs(STUDY_FILE) if cluster.submits(workflow) else []


# Activations


def capture_threads(wildcards):
    """Return the threads of capturing: all cores on a CPU, as an engine load takes."""
    return threads_of(study.models[wildcards.model].engine)


def read_answers(wildcards):
    """Return the answers of a cell whose tokens are averaged."""
    averaged = wildcards.positions == "answer_mean"
    return [f"{RESULTS}/answers/{wildcards.model}/{wildcards.split}.jsonl"] if averaged else []


def capture_gpus(wildcards, input):
    """Return the GPUs of capturing; none when the store already has everything."""
    cell = (wildcards.positions, wildcards.model, wildcards.split)
    return activations_stage.gpus(study, *cell, ROOT, input.requests, next(iter(input.answers), None))


# Recorded answers


def recorded(name):
    """Return an input function: a file of the cell's recorded answers."""
    return lambda wildcards: generation.recorded_file(study, wildcards.model, wildcards.split, name)


def recorded_votes(wildcards):
    """Return the files behind a cell's votes if its judge came with its answers; else none."""
    return (
        [recorded(name)(wildcards) for name in (ANSWERS, JUDGE_SCORES)] if judge_of(wildcards).way == "recorded" else []
    )


# Judging


def judge_of(wildcards):
    """Return the entry of a job's judge."""
    return study.every_judge[wildcards.judge]


def asked_judge(wildcards):
    """Return the entry whose engine is asked for a judge's verdicts: its own, or that of the judge asked on its behalf."""
    return study.engine_judges[wildcards.judge]


def judge_code(script):
    """Return a param: the version of a script's code together with that of the modules of the judge's kind, and of the kind asked on its behalf."""

    def version(wildcards):
        entries = (judge_of(wildcards), study.engine_judges.get(wildcards.judge, judge_of(wildcards)))
        return code_version(ROOT / "scripts" / script, *(JUDGE_KINDS.module(entry.kind) for entry in entries))

    return version


def judge_engine(wildcards):
    """Return the identity file of a judge's engine."""
    return paths.of("engines", engine=asked_judge(wildcards).engine)


def gold_read(wildcards):
    """Return the gold whose refusals decide what a judge's engine is asked, if any do."""
    read = asked_judge(wildcards).refusals_read()
    return [f"{RESULTS}/gold/{read.gold}.jsonl"] if read and read.gold else []


def of_refusals_read(wildcards, what):
    """Return the answers, or the verdicts, of the cells whose refusals decide what a judge's engine is asked, if any do."""
    read = asked_judge(wildcards).refusals_read()
    if not (read and read.judge):
        return []
    folder = {"answers": "answers", "verdicts": f"verdicts/{read.judge}"}[what]
    return [f"{RESULTS}/{folder}/{model}/{read.split}.jsonl" for model in sorted(study.view.read_by(wildcards.judge))]


def judge_template(wildcards):
    """Return the template file that a judge brings along, if any."""
    return generation.template_file(asked_judge(wildcards).rendering())


def verdicts_read(wildcards):
    """Return the verdicts on a cell that a judge's own are made of."""
    cell = f"{wildcards.model}/{wildcards.split}"
    return [f"{RESULTS}/verdicts/{judge}/{cell}.jsonl" for judge in judge_of(wildcards).reads()]


def judged_prompts(wildcards):
    """Return the prompts behind the answers of a cell; of gold they are in the gold file itself."""
    if judge_of(wildcards).asked_prompt:
        for path in generation.changed_prompts(study, wildcards.model, wildcards.split):
            return path
    return f"{RESULTS}/{'gold' if wildcards.model == GOLD else 'prompts'}/{wildcards.split}.jsonl"


def turns_judged(wildcards):
    """Return which turns of a cell are judged; nothing where all are."""
    return judging.turns(study, wildcards.model, wildcards.split)


def calibration_of(wildcards):
    """Return the calibration of a judge that asks for one; gold is read without it."""
    gold = judge_of(wildcards).threshold_on_gold(study.view)
    return [] if gold is None or wildcards.model == GOLD else [f"{RESULTS}/calibration/{wildcards.judge}/{gold}.json"]


def fitted_model(wildcards):
    """Return the fitted model of a judge that is fitted on gold."""
    return [f"{RESULTS}/judges/{wildcards.judge}/model.json"] if wildcards.judge in study.fitted_judges else []


def gold_requests(wildcards):
    """Return the requests about all gold of the study, of a judge that is fitted on gold and asks an engine."""
    return [
        f"{RESULTS}/judge_requests/{wildcards.judge}/{GOLD}/{gold}.jsonl"
        for gold in config["gold"]
        if wildcards.judge in study.engine_judges
    ]


def gold_receipts(wildcards):
    """Return the receipts of a judge that is fitted on gold and asks an engine, of all gold of the study."""
    if wildcards.judge not in study.engine_judges:
        return []
    cells = [Cell(GOLD, gold, wildcards.judge) for gold in config["gold"]]
    return sorted({path for cell in cells for path in paths.receipts("judge", study.batch_of[cell])})


def unseen_verdicts(wildcards):
    """Return the verdicts of a fitted judge on gold whose prompts it was fitted on, also in gold of another name."""
    own = wildcards.model == GOLD and wildcards.judge in study.fitted_judges
    return [f"{RESULTS}/judges/{wildcards.judge}/out_of_fold.jsonl"] if own else []


# Scores


def cell_of(wildcards):
    """Return judge, model and split of a cell."""
    return wildcards.judge, wildcards.model, wildcards.split


def protocol_scores(wildcards):
    """Return the file with a cell's c(x) where the study's protocol has one of its own."""
    noun = study.protocol.scores
    return [paths.of(noun, judge=wildcards.judge, model=wildcards.model, split=wildcards.split)] if noun else []


def foreign_calibration(wildcards):
    """Return the calibration behind a judge's card where another gold set gives it."""
    gold = scoring.calibrated_on(study, wildcards.judge)
    return [] if gold in (None, wildcards.gold) else [f"{RESULTS}/calibration/{wildcards.judge}/{gold}.json"]
