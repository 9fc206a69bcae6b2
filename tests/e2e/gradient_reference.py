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


def score_of(model: Any, embedded: Any, job: dict[str, Any], reply: list[int]) -> Any:
    """Return F of each row of embeddings.

    It is log P(a token of refusal), or that of the reply with which the row ends, or, not in the last layer, a
    projection of transformers' own hidden states.
    """
    if direction := job.get("direction"):
        vector = torch.tensor(direction["vector"], dtype=torch.float64)
        with torch.no_grad():
            parts = [
                model(inputs_embeds=part, output_hidden_states=True).hidden_states[direction["layer"] + 1][:, -1]
                for part in embedded.split(256)
            ]
        return (torch.cat(parts) * vector).sum(1)
    refusal = job["refusal"]
    with torch.no_grad():
        kept = len(reply) + 1
        rows = torch.cat([model(inputs_embeds=part).logits[:, -kept:].exp() for part in embedded.split(256)])
    if not reply:
        return (rows[:, -1, refusal].sum(1) / rows[:, -1].sum(1)).log()
    total = torch.zeros(len(rows), dtype=rows.dtype)
    for number, token in enumerate(reply):
        behind = rows[:, number]  # the token before this one
        total += (behind[:, token] / behind.sum(1)).log()
    return total


def differences(
    model: Any, embedded: Any, way: Any, own: list[int], job: dict[str, Any], reply: list[int]
) -> list[float]:
    """Return how fast F changes when each token goes its own way, at one point."""
    if not own:
        return []
    moved = embedded.repeat(2 * len(own), 1, 1)
    for row, place in enumerate(own):
        moved[2 * row, place] += STEP * way[place]
        moved[2 * row + 1, place] -= STEP * way[place]
    found = score_of(model, moved, job, reply)
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
        reply = item["token_ids"][len(item["token_ids"]) - item.get("reply", 0) :]
        ends = score_of(model, torch.stack([prompt, start]), job, reply).tolist()
        arguments = (way, item["own"], job, reply)
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
