"""Tables and the manifest: what goes into a paper, beside the figures of figures.smk; one job makes one table.

Reads the estimates of cells, the judges' cards and what analyses found, of these only what the table shows; writes
tables/{table}.{csv,md,tex,html}, report_pages/{table}.html where cells link to answers, and manifest.json.
"""

from refusal_eval.config.kinds import TABLES as TABLE_KINDS
from refusal_eval.workflow import tables_stage
from refusal_eval.workflow.whole_study import citations_of, settings_of

TABLES = study.tables
TABLE_FILES = tables_stage.table_files(study)
OF_ACTIVATIONS = [*activations_stage.files_made(study), *activations_stage.files_read(study)]


rule table:
    """Typeset one table of the study."""
    input:
        unpack(lambda wildcards: tables_stage.files(study, wildcards.table)),
        notes=lambda wildcards: tables_stage.notes(wildcards.table),
    output:
        collect(f"{RESULTS}/tables/{{{{table}}}}.{{ending}}", ending=tables_stage.ENDINGS),
    log:
        f"{LOGS}/tables/{{table}}.log",
    wildcard_constraints:
        table=any_of(name for name, kind in TABLES.items() if kind.typeset),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        asked=lambda wildcards: tables_stage.params(study, wildcards.table),
        code=lambda wildcards: code_version(
            ROOT / "scripts" / "make_table.py",
            TABLE_KINDS.module(wildcards.table),
            *map(Path, tables_stage.notes(wildcards.table)),
            *scoring.protocol_code(study),
            *tables_stage.page_modules(study, wildcards.table),
        ),
    message:
        "Typesetting the table {wildcards.table}"
    script:
        "../../scripts/make_table.py"


use rule table as listing with:
    output:
        f"{RESULTS}/tables/{{table}}.csv",
    wildcard_constraints:
        table=any_of(name for name, kind in TABLES.items() if not kind.typeset),
    # Not inherited: without it a cluster gets the job.
    localrule: True
    message:
        "Listing {wildcards.table}"


rule report_page:
    """Write a table's page for Snakemake's report, which does not hold the answers that its cells link to."""
    input:
        f"{RESULTS}/tables/{{table}}.html",
    output:
        f"{RESULTS}/report_pages/{{table}}.html",
    log:
        f"{LOGS}/report_page/{{table}}.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=500,
        runtime=5,
    params:
        code=code_version(ROOT / "scripts" / "make_report_page.py"),
    message:
        "Writing the page of {wildcards.table} for the report"
    script:
        "../../scripts/make_report_page.py"


rule manifest:
    """Write down what every number of the study comes from."""
    input:
        unpack(lambda wildcards: generation.identity_files_of_all(study)),
        engines=collect(f"{RESULTS}/engines/{{engine}}.json", engine=sorted(config["engine_entries"])),
        requests=collect(f"{RESULTS}/requests/{{model}}/{{split}}.jsonl", model=study.asked_models, split=SPLITS),
        judges=collect(f"{RESULTS}/judges/{{judge}}.json", judge=sorted(study.engine_judges)),
        answers=[
            *collect(f"{RESULTS}/answers/{{model}}/{{split}}.jsonl", model=MODELS, split=SPLITS),
            *(f"{RESULTS}/answers/{cell}.jsonl" for cell in study.further_cells if not cell.judge),
        ],
        verdicts=[
            *collect(f"{RESULTS}/verdicts/{{cell}}.jsonl", cell=CELLS),
            *(f"{RESULTS}/verdicts/{cell}.jsonl" for cell in study.further_cells if cell.judge),
            *collect(f"{RESULTS}/verdicts/{{judge}}/{GOLD}/{{gold}}.jsonl", judge=JUDGES, gold=GOLD_SETS),
        ],
        data=[
            *collect(f"{RESULTS}/prompts/{{split}}.jsonl", split=SPLITS),
            *collect(f"{RESULTS}/gold/{{gold}}.jsonl", gold=GOLD_SETS),
            f"{RESULTS}/results_table/results.csv",
            *OF_ACTIVATIONS,
        ],
        sources=analyses.sources_of_numbers(study),
        tables=collect(f"{RESULTS}/tables/{{table}}.csv", table=tables_stage.ALWAYS),
    output:
        f"{RESULTS}/manifest.json",
    log:
        f"{LOGS}/manifest.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        manifest={"results": RESULTS},
        of_activations=OF_ACTIVATIONS,  # what is taken away leaves no newer file
        # Of the methods section, which reads the study out of the manifest.
        citations=citations_of(study),
        settings=settings_of(study),
        sources_sha256=[content_hash(path) for path in analyses.sources_of_numbers(study)],
        lock_sha256=[content_hash(path) for path in filter(None, [config.get("lock")])],
        code=code_version(
            ROOT / "scripts" / "write_manifest.py",
            *generation.changing_modules(study, *study.every_model),
            *activations_stage.use_modules(study),
        ),
    message:
        "Writing the manifest"
    script:
        "../../scripts/write_manifest.py"
