"""Write the LaTeX commands that the captions of figures use."""

from refusal_eval.core.files import write_text
from refusal_eval.core.logs import start_log
from refusal_eval.plots.captions import captions_preamble

if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    write_text(snakemake.output[0], captions_preamble())
