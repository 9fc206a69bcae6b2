"""The entry of a clone; the workflow itself is workflow/Snakefile."""

from pathlib import Path

from snakemake.exceptions import WorkflowError

if not (Path(workflow.snakefile).parent / "workflow" / "Snakefile").is_file():  # read from an address, by itself
    raise WorkflowError(
        "This Snakefile cannot run from an address: it is the entry of a clone. Clone the repository, run `make setup` "
        "in the clone, and run snakemake there, or give the path of the clone's workflow/Snakefile to `module:`."
    )


include: "workflow/Snakefile"


# An include leaves the default target as it was, here none.
workflow.default_target = "all"
