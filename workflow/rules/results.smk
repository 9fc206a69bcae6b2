"""The results table and the methods section: every number of a study in one file, and the words that belong to it.

Reads scores/, judge_cards/, estimates/, judge_agreement.json, an audit's agreement.json and manifest.json; writes
results_table/{results.csv,results.parquet,dictionary.md}, methods.md, methods.tex and references.bib. The paper tables
(report.smk) are held against the results table.
"""

from refusal_eval.workflow.results_stage import REFERENCES, Results

results = quick_to_ask(Results(config))


rule results_table:
    """Put every number of the study into one table."""
    input:
        scores=results.scores,
        cards=results.cards,
        estimates=results.estimates,
        agreement=results.agreement,
        people=results.people,
    output:
        report(
            f"{RESULTS}/results_table/results.csv",
            category="Results",
            caption="../report/results_table.rst",
            labels={"result": "All numbers of the study", "form": "table"},
        ),
        f"{RESULTS}/results_table/results.parquet",
        f"{RESULTS}/results_table/dictionary.md",
    log:
        f"{LOGS}/results_table.log",
    localrule: True
    params:
        study=results.study,
        code=code_version(ROOT / "scripts" / "make_results_table.py"),
    message:
        "Making the results table"
    script:
        "../../scripts/make_results_table.py"


rule methods:
    """Write the methods section, with the study's numbers, and the BibTeX of what it used."""
    input:
        manifest=results.manifest(),
        scores=results.scores,
        cards=results.cards,
        results=results.table(),
        duplicates=f"{RESULTS}/estimates/duplicates.json",
        references=[str(ROOT / "config" / "catalogue" / name) for name in REFERENCES],
    output:
        report(
            f"{RESULTS}/methods.md",
            category="Results",
            caption="../report/methods.rst",
            labels={"result": "Methods section", "form": "text"},
        ),
        f"{RESULTS}/methods.tex",
        f"{RESULTS}/references.bib",
    log:
        f"{LOGS}/methods.log",
    localrule: True
    params:
        code=code_version(
            ROOT / "scripts" / "make_methods.py", *(JUDGES.module(judge.kind) for judge in study.judges.values())
        ),
    message:
        "Writing the methods section"
    script:
        "../../scripts/make_methods.py"
