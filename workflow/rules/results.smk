"""The results table and the methods section: every number of a study in one file, and the words that belong to it.

Reads judge_cards/, estimates/, an audit's agreement.json and manifest.json; writes
results_table/{results.csv,results.parquet,dictionary.md}, methods.md, methods.tex, a short form of both, and references.bib. Tables and
figures show what is in the results table.
"""

from refusal_eval.config.kinds import ANALYSES, JUDGES as JUDGE_KINDS, feature_files
from refusal_eval.workflow.analysis import estimate_files, measuring_module

RESULTS_TABLE = collect(f"{RESULTS}/results_table/{{name}}", name=["results.csv", "results.parquet", "dictionary.md"])
METHODS_FILES = ["methods.md", "methods.tex", "methods_short.md", "methods_short.tex", "references.bib"]
METHODS = collect(f"{RESULTS}/{{name}}", name=METHODS_FILES)
CARDS = collect(f"{RESULTS}/judge_cards/{{judge}}/{{gold}}.json", judge=JUDGES, gold=GOLD_SETS)
ESTIMATES = estimate_files(study)
OF_KERNEL = ROOT / "scripts" / "refusal_eval" / "report"
DICTIONARY = [OF_KERNEL / "results" / "dictionary.yaml", *feature_files("dictionary.yaml")]
METHODS_TEMPLATES = [
    *(OF_KERNEL / "methods" / name for name in ("methods.j2", "methods_short.j2")),
    *feature_files("methods.j2"),
]
REFERENCES = [ROOT / "config" / "catalogue" / name for name in ("references.bib", "tools.bib")]


rule results_table:
    """Put every number of the study into one table."""
    input:
        cards=CARDS,
        estimates=ESTIMATES,
        people=analyses.own_estimates(study),
        dictionary=list(map(str, DICTIONARY)),
    output:
        RESULTS_TABLE,
    log:
        f"{LOGS}/results_table.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        study=lambda wildcards: analyses.results(study, [*CARDS, *ESTIMATES]),
        code=code_version(ROOT / "scripts" / "make_results_table.py", *DICTIONARY),
    message:
        "Making the results table"
    script:
        "../../scripts/make_results_table.py"


rule methods:
    """Write the methods section, with the study's numbers, and the BibTeX of what it used."""
    input:
        manifest=f"{RESULTS}/manifest.json",
        cards=CARDS,
        results=f"{RESULTS}/results_table/results.csv",
        duplicates=f"{RESULTS}/estimates/duplicates.json",
        templates=list(map(str, METHODS_TEMPLATES)),
        references=list(map(str, REFERENCES)),
    output:
        METHODS,
    log:
        f"{LOGS}/methods.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        code=code_version(
            ROOT / "scripts" / "make_methods.py",
            *METHODS_TEMPLATES,
            *map(measuring_module, ANALYSES.names()),
            *REFERENCES,
            *(JUDGE_KINDS.module(judge.kind) for judge in study.judges.values()),
            *generation.changing_modules(study, *study.every_model, code="words_code"),
        ),
    message:
        "Writing the methods section"
    script:
        "../../scripts/make_methods.py"
