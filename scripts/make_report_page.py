"""Write a table's page as Snakemake's report shows it: without links to answers, which the report does not hold."""

from pathlib import Path

from refusal_eval.core.files import write_text
from refusal_eval.core.logs import start_log
from refusal_eval.report.paper.html_page import unlinked_page

if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    write_text(snakemake.output[0], unlinked_page(Path(snakemake.input[0]).read_text(encoding="utf-8")))
