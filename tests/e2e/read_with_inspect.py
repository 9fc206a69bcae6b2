"""Read logs with inspect_ai, in an environment that has it: files as arguments, a JSON object per log out."""

import json
import sys
from typing import Any

from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries


def read(file: str) -> dict[str, Any]:
    """Return what inspect_ai makes of a log."""
    log = read_eval_log(file)
    assert log.results is not None and log.samples is not None
    samples = []
    for sample in log.samples:
        choice = sample.output.choices[0] if sample.output.choices else None
        content = choice.message.content if choice else ""
        parts = [] if isinstance(content, str) else content
        samples.append(
            {
                "epoch": sample.epoch,
                "asked": [message.text for message in sample.messages if message.role != "assistant"],
                "completion": sample.output.completion,
                "stop_reason": choice and choice.stop_reason,
                "stopped": choice and choice.stop_details and choice.stop_details.category,
                "reasoning": [part.reasoning for part in parts if part.type == "reasoning"],
                "error": sample.error and sample.error.message,
                "scores": {name: score.value for name, score in (sample.scores or {}).items()},
                "metadata": sample.metadata,
            }
        )
    return {
        "status": log.status,
        "model": log.eval.model,
        "task": log.eval.task,
        "epochs": log.eval.config.epochs,
        "prompts": log.eval.dataset.samples,
        "rates": {s.name: {name: metric.value for name, metric in s.metrics.items()} for s in log.results.scores},
        "listed": len(read_eval_log_sample_summaries(file)),
        "samples": samples,
    }


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(json.dumps(read(name)), flush=True)
