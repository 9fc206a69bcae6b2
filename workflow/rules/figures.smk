"""Figures: what a study names under `figures`, or what its models, splits and judges allow.

Reads scores/, estimates/, verdicts/ and the judges' cards, only those that a figure of the study shows; writes
figures/<name>.{pdf,svg,png,csv,caption.md,caption.tex}. One job draws all: it costs a second or two a figure.
"""

from refusal_eval.workflow.figures_stage import Figures

drawing = quick_to_ask(Figures(config))


rule figures:
    """Draw all figures of the study."""
    input:
        scores=drawing.scores,
        rows=drawing.rows,
        cards=drawing.cards,
        verdicts=drawing.verdicts,
        estimates=drawing.estimates,
        tradeoff=drawing.tradeoff,
        agreement=drawing.agreement,
    output:
        [
            report(
                f"{RESULTS}/figures/{name}.svg",
                category=category,
                caption=f"../report/figure_{kind}.rst",
                labels={"result": words, "name": name, "form": "figure"},
            )
            for name, kind, category, words in drawing.shown()
        ],
        drawing.others(),
    log:
        f"{LOGS}/figures.log",
    localrule: True
    params:
        entries=drawing.entries,
        cells=drawing.cells,
        study=drawing.presentation,
        files=["scores", "rows", "cards", "verdicts", "estimates", "tradeoff", "agreement"],
        code=code_version(ROOT / "scripts" / "make_figures.py"),
    message:
        "Drawing the figures"
    script:
        "../../scripts/make_figures.py"
