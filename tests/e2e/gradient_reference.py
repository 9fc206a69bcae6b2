"""What gradients of a refusal have to agree with, by finite differences in float64; for the engine environment.

Usage: python gradient_reference.py JOB.json
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from search_reference import in_float64

STEP, POINTS = 1e-4, 200  # of a difference; of a midpoint rule


def log_probability(model: Any, embedded: Any, refusal: list[int]) -> Any:
    """Return log P(a token of refusal) behind each row of embeddings, by the plain formula."""
    with torch.no_grad():
        rows = [model(inputs_embeds=part).logits[:, -1].exp() for part in embedded.split(256)]
    shares = torch.cat(rows)
    return (shares[:, refusal].sum(1) / shares.sum(1)).log()


def differences(model: Any, embedded: Any, way: Any, own: list[int], refusal: list[int]) -> list[float]:
    """Return how fast F changes when each token goes its own way, at one point."""
    moved = embedded.repeat(2 * len(own), 1, 1)
    for row, place in enumerate(own):
        moved[2 * row, place] += STEP * way[place]
        moved[2 * row + 1, place] -= STEP * way[place]
    found = log_probability(model, moved, refusal)
    return ((found[0::2] - found[1::2]) / (2 * STEP)).tolist()  # type: ignore[no-any-return]


def main(job_path: str) -> None:
    """Print for each item F of prompt and baseline, and the values of its own tokens by both methods."""
    job = json.loads(Path(job_path).read_text())
    model, said = in_float64(job["folder"]), []
    matrix = model.get_input_embeddings().weight.detach()
    for item in job["items"]:
        prompt = matrix[item["token_ids"]]
        start = prompt.clone()
        start[item["own"]] = matrix[job["baseline"]]
        way = prompt - start
        ends = log_probability(model, torch.stack([prompt, start]), job["refusal"]).tolist()
        arguments = (way, item["own"], job["refusal"])
        middle = [(point + 0.5) / POINTS for point in range(POINTS)]
        line = [differences(model, start + share * way, *arguments) for share in middle]
        values = {
            "gradient": differences(model, prompt, *arguments),
            "integrated_gradient": [sum(each) / POINTS for each in zip(*line, strict=True)],
        }
        said.append({"score": ends[0], "baseline": ends[1], **values})
    print(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1])
