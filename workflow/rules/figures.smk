"""Figures: what a study names under `figures`, or what its models, splits and judges allow; one job draws one.

Reads scores/, estimates/, verdicts/ and the judges' cards, only those that the figure shows; writes
figures/<name>.{pdf,svg,png,csv,caption.md,caption.tex}, and what LaTeX needs for all captions.
"""

from refusal_eval.workflow.figures_stage import ENDINGS, REPORT, figures_of, presentation, report_caption, shown_by

FIGURES = figures_of(config)
shown = shown_by(FIGURES)

FIGURE_FILES = [
    *collect(f"{RESULTS}/figures/{{figure}}.{{ending}}", figure=FIGURES, ending=ENDINGS),
    *([f"{RESULTS}/figures/captions_preamble.tex"] if FIGURES else []),
]


rule figure:
    """Draw one figure of the study."""
    input:
        scores=shown("scores", f"{RESULTS}/scores/{{judge}}/{{model}}/{{split}}.json"),
        rows=shown("rows", f"{RESULTS}/scores/{{judge}}/{{model}}/{{split}}.csv"),
        verdicts=shown("verdicts", f"{RESULTS}/verdicts/{{judge}}/{{model}}/{{split}}.jsonl"),
        estimates=shown("estimates", f"{RESULTS}/estimates/cells/{{judge}}/{{model}}.json"),
        tradeoff=shown("tradeoff", f"{RESULTS}/estimates/tradeoff.json"),
        agreement=shown("agreement", f"{RESULTS}/judge_agreement.json"),
        cards=shown("cards", f"{RESULTS}/judge_cards/{{judge}}/{{gold}}.json"),
    output:
        report(
            f"{RESULTS}/figures/{{figure}}.svg",
            category=lambda wildcards: REPORT[FIGURES[wildcards.figure]["kind"]][0],
            caption="../report/figure.rst",
            labels=lambda wildcards: {
                "result": REPORT[FIGURES[wildcards.figure]["kind"]][1],
                "name": wildcards.figure,
                "form": "figure",
            },
        ),
        collect(f"{RESULTS}/figures/{{{{figure}}}}.{{ending}}", ending=ENDINGS[1:]),
    log:
        f"{LOGS}/figures/{{figure}}.log",
    wildcard_constraints:
        figure=any_of(FIGURES),
    localrule: True
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        figure=lambda wildcards: FIGURES[wildcards.figure],
        study=lambda wildcards: presentation(config, FIGURES[wildcards.figure]),
        caption=lambda wildcards: report_caption(config, FIGURES[wildcards.figure]),
        code=code_version(ROOT / "scripts" / "make_figure.py"),
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
    params:
        code=code_version(ROOT / "scripts" / "make_captions_preamble.py"),
    message:
        "Writing the preamble of captions"
    script:
        "../../scripts/make_captions_preamble.py"
