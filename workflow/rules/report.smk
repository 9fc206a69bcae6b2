"""Tables, figures and the manifest: what goes into a paper.

Reads all scores and judge cards; writes tables/*.{csv,md,tex}, figures/*.{pdf,svg,png} and manifest.json.
"""

TABLES = ["refusal", "scores", "states", "votes", "judges"]
FIGURES = ["refusal_heatmap", "c_histograms"]


def all_scores(ending, judges):
    return [
        f"{RESULTS}/scores/{judge}/{cell.model}/{cell.split}.{ending}" for judge in judges for cell in sorted(CELLS)
    ]


def study_scores(wildcards):
    return all_scores("json", sorted(config["judges"]))


def primary_scores(wildcards):
    return all_scores("json", [config["primary_judge"]])


def primary_rows(wildcards):
    return all_scores("csv", [config["primary_judge"]])


def study_cards(wildcards):
    return [f"{RESULTS}/judge_cards/{judge}/{gold}.json" for judge in sorted(config["judges"]) for gold in sorted(config["gold"])]


def entry_labels(section):
    return {name: entry["label"] or name for name, entry in config[section].items()}


def presentation(wildcards):
    """Names, their order and their labels; the lists are params, so that a model taken away is noticed."""
    return {
        "models": config["models"],
        "splits": config["splits"],
        "judges": config["judges"],
        "gold": config["gold"],
        "primary_judge": config["primary_judge"],
        "band": config["scoring"]["band"],
        "labels": {
            "models": entry_labels("model_entries"),
            "splits": entry_labels("split_entries"),
            "judges": entry_labels("judge_entries"),
            "golds": entry_labels("gold_entries"),
        },
    }


def engine_files(wildcards):
    return [engine_file(name) for name in sorted(config["engine_entries"])]


def manifest_data(wildcards):
    """The files that answers, verdicts and cards were made from."""
    return (
        [f"{RESULTS}/prompts/{split}.jsonl" for split in config["splits"]]
        + [f"{RESULTS}/gold/{gold}.jsonl" for gold in config["gold"]]
        + [f"{RESULTS}/answers/{cell.model}/{cell.split}.jsonl" for cell in CELLS]
        + [f"{RESULTS}/verdicts/{judge}/{cell.model}/{cell.split}.jsonl" for judge in config["judges"] for cell in CELLS]
    )


def study_targets(wildcards):
    """What a run makes: tables, figures and the manifest."""
    return (
        [f"{RESULTS}/tables/{name}.{ending}" for name in TABLES for ending in ("csv", "md", "tex")]
        + [f"{RESULTS}/figures/{name}.{ending}" for name in FIGURES for ending in ("pdf", "svg", "png")]
        + [f"{RESULTS}/manifest.json"]
    )


rule tables:
    """Make all tables of the study."""
    input:
        scores=study_scores,
        cards=study_cards,
    output:
        report(
            f"{RESULTS}/tables/refusal.csv",
            category="Refusal rates",
            caption="../report/refusal_table.rst",
            labels={"result": "Refusal rates, primary judge", "form": "table"},
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
        [f"{RESULTS}/tables/{name}.{ending}" for name in TABLES for ending in ("md", "tex")],
    log:
        f"{LOGS}/tables.log",
    localrule: True
    params:
        study=presentation,
        code=code_version("scripts/make_tables.py"),
    message:
        "Making the tables"
    script:
        "../../scripts/make_tables.py"


rule figures:
    """Make all figures of the study, from the primary judge's scores."""
    input:
        scores=primary_scores,
        rows=primary_rows,
        cards=study_cards,
    output:
        report(
            f"{RESULTS}/figures/refusal_heatmap.svg",
            category="Refusal rates",
            caption="../report/refusal_heatmap.rst",
            labels={"result": "Refusal rate by model and split", "form": "figure"},
        ),
        report(
            f"{RESULTS}/figures/c_histograms.svg",
            category="Refusal rates",
            caption="../report/c_histograms.rst",
            labels={"result": "Distribution of c(x)", "form": "figure"},
        ),
        [f"{RESULTS}/figures/{name}.{ending}" for name in FIGURES for ending in ("pdf", "png")],
    log:
        f"{LOGS}/figures.log",
    localrule: True
    params:
        study=presentation,
        code=code_version("scripts/make_figures.py"),
    message:
        "Making the figures"
    script:
        "../../scripts/make_figures.py"


rule manifest:
    """Write down what every number of the study comes from."""
    input:
        engines=engine_files,
        data=manifest_data,
        tables=[f"{RESULTS}/tables/{name}.csv" for name in TABLES],
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
        code=code_version("scripts/write_manifest.py"),
    message:
        "Writing the manifest"
    script:
        "../../scripts/write_manifest.py"
