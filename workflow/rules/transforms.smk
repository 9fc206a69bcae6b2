"""Transforms: the prompts of a split as a model with a `transform` is asked them.

Reads prompts/{split}.jsonl; writes transformed/{model}/{split}.jsonl, of which requests are made. Judges read the split's own prompts.
"""

from refusal_eval.features.transforms.transform_files import transforms_of, values_files
from refusal_eval.features.transforms.transform_kind import TRANSFORMS


rule transformed_prompts:
    """Change the prompts of one cell, and note which keep their own text."""
    input:
        prompts=f"{RESULTS}/prompts/{{split}}.jsonl",
        read=lambda wildcards: [
            f"{RESULTS}/prompts/{split}.jsonl" for split in transforms_of(study)[wildcards.model].splits_read()
        ],
        values=lambda wildcards: values_files(study, wildcards.model, wildcards.split),
    output:
        f"{RESULTS}/transformed/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/transformed_prompts/{{model}}/{{split}}.log",
    wildcard_constraints:
        model=any_of(transforms_of(study)),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        transform=lambda wildcards: transforms_of(study)[wildcards.model].model_dump(mode="json", exclude_none=True),
        code=lambda wildcards: code_version(
            ROOT / "scripts" / "transform_prompts.py", TRANSFORMS.module(transforms_of(study)[wildcards.model].kind)
        ),
    message:
        "Changing the prompts of {wildcards.split} for {wildcards.model}"
    script:
        "../../scripts/transform_prompts.py"
