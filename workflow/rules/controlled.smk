"""Controlled prompts: texts that one model writes, token by token, so that another one refuses them.

Reads prompts/ of the seeds, and answers and verdicts of the target on the split of its refusals. Writes
controlled/{split}/items.json (what is searched for, with a key for each text), receipts of the searches, whose texts are
in the store, and controlled/{split}/rows.jsonl, of which prompts are made.
"""

from refusal_eval.features.controlled import controlled_stage
from refusal_eval.features.controlled.controlled_files import controlled_splits

CONTROLLED = any_of(controlled_splits(study))


rule search_items:
    """Render what both models read, draw the refusal that each text is to bring about, and make the key of each."""
    input:
        seeds=lambda wildcards: f"{RESULTS}/prompts/{controlled_splits(study)[wildcards.split].seeds}.jsonl",
        answers=lambda wildcards: controlled_stage.refusals_read(study, wildcards.split, "answers"),
        verdicts=lambda wildcards: controlled_stage.refusals_read(study, wildcards.split, "verdicts"),
        by=lambda wildcards: controlled_stage.engine_file(study, wildcards.split, "by"),
        target=lambda wildcards: controlled_stage.engine_file(study, wildcards.split, "target"),
        template=lambda wildcards: controlled_stage.template_files(study, wildcards.split),
    output:
        f"{RESULTS}/controlled/{{split}}/items.json",
    log:
        f"{LOGS}/search_items/{{split}}.log",
    wildcard_constraints:
        split=CONTROLLED,
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        search=lambda wildcards: controlled_stage.search_params(study, wildcards.split),
        code=code_version(ROOT / "scripts" / "make_search_items.py"),
    message:
        "Preparing the search for {wildcards.split}"
    script:
        "../../scripts/make_search_items.py"


rule search_prompts:
    """Write the texts that the store lacks, token by token, in the engine environment."""
    input:
        search=f"{RESULTS}/controlled/{{split}}/items.json",
        by=lambda wildcards: controlled_stage.engine_file(study, wildcards.split, "by"),
        target=lambda wildcards: controlled_stage.engine_file(study, wildcards.split, "target"),
        by_weights=lambda wildcards: controlled_stage.weights_of(study, wildcards.split, "by"),
        target_weights=lambda wildcards: controlled_stage.weights_of(study, wildcards.split, "target"),
    output:
        f"{RESULTS}/controlled/{{split}}/receipts/{{load}}.json",
    log:
        f"{LOGS}/search_prompts/{{split}}/{{load}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/search_prompts/{{split}}/{{load}}.tsv"
    wildcard_constraints:
        split=CONTROLLED,
    priority: 100  # answers to the prompts wait for it
    conda:
        "../../envs/workflow.yaml"
    container:
        ENGINE_IMAGE
    threads: lambda wildcards: threads_of(controlled_stage.largest_engine(study, wildcards.split, ROOT))
    resources:
        gpu=lambda wildcards, input: controlled_stage.gpus(study, wildcards.split, wildcards.load, ROOT, input.search),
        gpu_model=lambda wildcards, input: cluster.gpu_model(
            workflow, controlled_stage.gpus(study, wildcards.split, wildcards.load, ROOT, input.search)
        ),
        slurm_partition=lambda wildcards, input: cluster.partition(
            workflow, controlled_stage.gpus(study, wildcards.split, wildcards.load, ROOT, input.search)
        ),
        slurm_extra=load_options,
    params:
        # Run by their paths, in the engine environment; what the store has is not searched for again.
        code=code_version(
            ROOT / "scripts" / "search_prompts.py",
            ROOT / "scripts" / "refusal_eval" / "features" / "controlled" / "controlled_program.py",
            ROOT / "scripts" / "refusal_eval" / "features" / "controlled" / "search_models.py",
            ROOT / "scripts" / "refusal_eval" / "activations" / "capture_program.py",
            ROOT / "scripts" / "refusal_eval" / "engines" / "first_calls.py",
        ),
    message:
        "Searching for prompts: {wildcards.split}, load {wildcards.load}"
    script:
        "../../scripts/search_prompts.py"


rule found_prompts:
    """Collect what was found for one split, a row for each text that was searched for."""
    input:
        search=f"{RESULTS}/controlled/{{split}}/items.json",
        receipts=lambda wildcards: controlled_stage.receipts(study, wildcards.split),
    output:
        f"{RESULTS}/controlled/{{split}}/rows.jsonl",
    log:
        f"{LOGS}/found_prompts/{{split}}.log",
    wildcard_constraints:
        split=CONTROLLED,
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        code=code_version(ROOT / "scripts" / "collect_found_prompts.py"),
    message:
        "Collecting the prompts found for {wildcards.split}"
    script:
        "../../scripts/collect_found_prompts.py"
