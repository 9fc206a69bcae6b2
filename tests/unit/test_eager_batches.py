"""Which requests of the engine of kind `eager` share a batch, so that what is computed of it fits."""

import asyncio
import runpy
from types import SimpleNamespace

import pytest
from project import ROOT

pytestmark = pytest.mark.feature("eager")
SERVER = ROOT / "scripts" / "refusal_eval" / "features" / "eager" / "eager_server.py"


def sizes(vocabulary: int, *asked: tuple[int, bool]) -> list[int]:
    """Return how many requests are in each batch; of each its tokens, and whether those of the prompt are wanted."""

    async def batches() -> list[int]:
        server = runpy.run_path(str(SERVER))["EagerServer"](SimpleNamespace(vocabulary=vocabulary), 32, 4096)
        for tokens, whole in asked:
            request = SimpleNamespace(prompt=[1] * tokens, sampling={"max_tokens": 1}, of_prompt=whole)
            server._waiting.append((request, asyncio.get_running_loop().create_future()))
        found = []
        while server._waiting:
            found.append(len(server._next_batch()))
        return found

    return asyncio.run(batches())


def test_log_probabilities_of_prompts_are_computed_of_as_many_as_a_gibibyte_holds() -> None:
    assert sizes(2**17, *[(64, False)] * 40) == [32, 8], "one place of each prompt alone"
    assert sizes(2**17, *[(64, True)] * 40) == [32, 8], "32 x 64 x 2**17 numbers are as many as may be"
    assert sizes(2**17, *[(128, True)] * 40) == [16, 16, 8]
    assert sizes(2**17, *[(128, False)] * 17, (128, True)) == [17, 1], "one that wants them costs all of its batch"
    assert sizes(2**17, (4000, True), (4000, True)) == [1, 1], "one by itself is always asked"
