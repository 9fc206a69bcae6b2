"""Tables and the manifest: what goes into a paper, beside the figures of figures.smk.

Reads all scores and judge cards; writes tables/*.{csv,md,tex} and manifest.json.
"""


rule tables:
    """Make all tables of the study."""
    input:
        scores=reporting.scores,
        cards=reporting.cards,
        results=f"{RESULTS}/results_table/results.csv",
    output:
        report(
            f"{RESULTS}/tables/refusal.csv",
            category="Refusal rates",
            caption="../report/refusal_table.rst",
            labels={"result": "Refusal rates, primary judge", "form": "table"},
        ),
        report(
            f"{RESULTS}/tables/categories.csv",
            category="Refusal rates",
            caption="../report/categories_table.rst",
            labels={"result": "Refusal rates by category, primary judge", "form": "table"},
        ),
        report(
            f"{RESULTS}/tables/scores.csv",
            category="Refusal rates",
            caption="../report/scores_table.rst",
            labels={"result": "Refusal rates, all judges", "form": "table"},
        ),
        report(
            f"{RESULTS}/tables/states.csv",
            category="Accounting",
            caption="../report/states_table.rst",
            labels={"result": "States of answers and verdicts", "form": "table"},
        ),
        report(
            f"{RESULTS}/tables/votes.csv",
            category="Refusal rates",
            caption="../report/votes_table.rst",
            labels={"result": "Votes over K samples, and c(x)", "form": "table"},
        ),
        report(
            f"{RESULTS}/tables/judges.csv",
            category="Judges",
            caption="../report/judges_table.rst",
            labels={"result": "Agreement of judges with people", "form": "table"},
        ),
        reporting.tables("md", "tex"),
    log:
        f"{LOGS}/tables.log",
    localrule: True
    params:
        study=reporting.presentation,
        code=code_version(ROOT / "scripts" / "make_tables.py"),
    message:
        "Making the tables"
    script:
        "../../scripts/make_tables.py"


rule protocol_effects:
    """Make the table of what each choice of the published code does."""
    input:
        scores=reporting.published_scores,
    output:
        report(
            f"{RESULTS}/tables/protocol_effects.csv",
            category="Protocols",
            caption="../report/protocol_effects.rst",
            labels={"result": "What each published choice does", "form": "table"},
        ),
        [f"{RESULTS}/tables/protocol_effects.{ending}" for ending in ("md", "tex")],
    log:
        f"{LOGS}/protocol_effects.log",
    localrule: True
    params:
        study=reporting.presentation,
        code=code_version(ROOT / "scripts" / "make_effects_table.py"),
    message:
        "Making the table of protocol effects"
    script:
        "../../scripts/make_effects_table.py"


rule manifest:
    """Write down what every number of the study comes from."""
    input:
        engines=reporting.engines,
        adapters=reporting.adapters,
        data=reporting.data,
        tables=reporting.tables("csv"),
    output:
        report(
            f"{RESULTS}/manifest.json",
            category="Accounting",
            caption="../report/manifest.rst",
            labels={"result": "Manifest", "form": "JSON"},
        ),
    log:
        f"{LOGS}/manifest.log",
    localrule: True
    params:
        manifest={"results": RESULTS},
        code=code_version(ROOT / "scripts" / "write_manifest.py"),
    message:
        "Writing the manifest"
    script:
        "../../scripts/write_manifest.py"
