"""Write the cosines between the directions of a study, layer by layer."""

import itertools
from collections.abc import Sequence

import pandas as pd

from refusal_eval.core.files import written_whole
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.features.steering.direction_files import read_direction
from refusal_eval.features.steering.directions import cosine

COLUMNS = ["model", "layer", "direction", "other", "cosine"]


def main(paths: Sequence[str], output: str) -> None:
    """Write a CSV with a row for each layer that two directions of one model share."""
    rows = []
    for (one, about_one), (other, about_other) in itertools.combinations(map(read_direction, paths), 2):
        if about_one["model"] != about_other["model"]:
            continue
        for layer in sorted(set(about_one["layers"]) & set(about_other["layers"])):
            vectors = [
                tensors["direction"][said["layers"].index(layer)].astype(float)
                for tensors, said in ((one, about_one), (other, about_other))
            ]
            names = about_one["direction"], about_other["direction"]
            rows.append([about_one["model"], layer, *names, cosine(*vectors)])
    with written_whole(output) as handle:
        pd.DataFrame(rows, columns=COLUMNS).to_csv(handle, index=False, float_format="%.6f", lineterminator="\n")
    LOG.info("%d directions, %d cosines", len(paths), len(rows))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    main([str(path) for path in snakemake.input], snakemake.output[0])
