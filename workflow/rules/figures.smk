"""Figures: what a study names under `figures`, or what its models, splits and judges allow; one job draws one.

Reads estimates/, scores/, the judges' cards and files of features, only those that the figure shows; writes
figures/<name>.{pdf,svg,png,csv,tex,html}, its captions, and what LaTeX needs for all captions.
"""

from refusal_eval.config.kinds import FIGURES
from refusal_eval.workflow import figures_stage

FIGURE_FILES = [
    *collect(f"{RESULTS}/figures/{{figure}}.{{ending}}", figure=study.figures, ending=figures_stage.ENDINGS),
    *([f"{RESULTS}/figures/captions_preamble.tex"] if study.figures else []),
]


rule figure:
    """Draw one figure of the study."""
    input:
        unpack(lambda wildcards: figures_stage.files(study, wildcards.figure)),
    output:
        collect(f"{RESULTS}/figures/{{{{figure}}}}.{{ending}}", ending=figures_stage.ENDINGS),
    log:
        f"{LOGS}/figures/{{figure}}.log",
    wildcard_constraints:
        figure=any_of(study.figures),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        asked=lambda wildcards: figures_stage.params(study, wildcards.figure),
        code=lambda wildcards: code_version(
            ROOT / "scripts" / "make_figure.py",
            FIGURES.module(study.figures[wildcards.figure].kind),
            *scoring.protocol_code(study),
        ),
    message:
        "Drawing the figure {wildcards.figure}"
    script:
        "../../scripts/make_figure.py"


rule captions_preamble:
    """Write what LaTeX needs for the captions of all figures."""
    output:
        f"{RESULTS}/figures/captions_preamble.tex",
    log:
        f"{LOGS}/captions_preamble.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    params:
        code=code_version(ROOT / "scripts" / "make_captions_preamble.py"),
    message:
        "Writing the preamble of captions"
    script:
        "../../scripts/make_captions_preamble.py"
