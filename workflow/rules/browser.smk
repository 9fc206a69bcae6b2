"""The browser: one page with all answers of the study and what the judges say of them, where the study asks for it.

Reads prompts/, answers/, verdicts/ and results_table/; writes browser.html.
"""

from refusal_eval.features.browser import page_paths, shown_study


rule browser:
    """Write the page to browse the study's answers."""
    input:
        page_paths.files_read(study),
    output:
        f"{RESULTS}/browser.html",
    log:
        f"{LOGS}/browser.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        shown=shown_study.shown_study(study),
        files=page_paths.named_paths(study),
        code=code_version(ROOT / "scripts" / "make_browser.py", *shown_study.page_files()),
    message:
        "Writing the page to browse answers"
    script:
        "../../scripts/make_browser.py"
