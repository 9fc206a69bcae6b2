"""Ask hosted models through inspect_ai, in an environment that has it: a JSON object per line in, another one out."""

import asyncio
import json
import sys
from typing import Any

from inspect_ai.model import ChatMessageUser, GenerateConfig, get_model


async def asked(job: dict[str, Any]) -> dict[str, Any]:
    """Return how inspect_ai reads the reply to one request, or the error that it raises."""
    more = {"responses_api": False} if job["dialect"] == "openai" else {}
    config = GenerateConfig(max_retries=0, max_tokens=50, timeout=30)
    name, address = f"{job['dialect']}/{job['model']}", job["address"]
    model = get_model(name, base_url=address, api_key=job["key"], memoize=False, config=config, **more)
    try:
        output = await model.generate([ChatMessageUser(content="Tell me.")])
    except Exception as error:
        return {"raised": f"{type(error).__name__}: {error}"}
    choice = output.choices[0] if output.choices else None
    details = choice and choice.stop_details
    return {
        "stop_reason": choice and choice.stop_reason,
        "completion": output.completion,
        "model": output.model,
        "category": details and details.category,
        "declined": details is not None and details.type == "refusal",
    }


async def main() -> None:
    for line in sys.stdin:
        print(json.dumps(await asked(json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
