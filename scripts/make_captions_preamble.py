"""Write the LaTeX commands that the captions of figures use."""

from refusal_eval.core.files import written_whole
from refusal_eval.core.logs import start_log
from refusal_eval.plots.captions import captions_preamble

if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    with written_whole(snakemake.output[0]) as handle:
        handle.write(captions_preamble())
