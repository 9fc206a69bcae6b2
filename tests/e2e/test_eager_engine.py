"""The engine of kind `eager`: its answers are transformers' own, and steered ones those of an independent mask."""

import asyncio
import json
import random
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_entries import engine_of
from project import ROOT
from tokenizers import Tokenizer, decoders
from tokenizers import models as token_models
from transformers import PreTrainedTokenizerFast

from refusal_eval.ask.keys import NEUTRAL_SAMPLING
from refusal_eval.ask.requests import RequestSettings
from refusal_eval.core.packing import unpack_floats
from refusal_eval.engines.engine_base import EngineLoad, Rejected
from refusal_eval.engines.server import Server
from refusal_eval.features.eager.eager_engine import EagerEngine
from refusal_eval.study.engine_environment import engine_python

pytestmark = [pytest.mark.full, pytest.mark.feature("eager", "attention", "steering")]

REFERENCE = Path(__file__).with_name("eager_reference.py")
ENTRY: dict[str, Any] = {"kind": "eager", "dtype": "float32", "max_model_len": 128, "trust_remote_code": False}
ENTRY |= {"python": None, "start_timeout": 600, "stall_timeout": 600}
FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "gemma", "gemma2", "gemma3")
TOKENS = 10
GREEDY = {**NEUTRAL_SAMPLING, "max_tokens": TOKENS, "temperature": 0.0}
PYTHON = engine_python(ENTRY, ROOT)
# Runs of places: one inside a window of 8 tokens from the end, one before it, two in one prompt, and the first token.
SPANS = [[[20, 22]], [[2, 3]], [[4, 4], [9, 10]], [[0, 1]]]


def prompts(count: int = 4, seed: int = 0) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(3, 256) for _ in range(24 + number % 4)] for number in range(count)]


def positions(spans: list[list[int]]) -> list[int]:
    return [place for first, last in spans for place in range(first, last + 1)]


def asked(alpha: float, spans: list[list[int]], layers: list[int] | None = None) -> dict[str, Any]:
    """Return the change of a request, as its settings hold it."""
    where = {} if layers is None else {"layers": layers}
    return {"attention": {"alpha": alpha, **where, "positions": positions(spans)}}


CASES: list[tuple[str, float | None, list[int] | None]] = [
    *(("plain", None, None), ("masked", 0.0, None), ("tenth", 0.1, None), ("layers", 0.1, [1, 2])),
]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[list[dict[str, Any]]]]]:
    """Return a folder with a tiny model of each family, and by family what the reference answers in each case."""
    folder = tmp_path_factory.mktemp("eager") / "models"
    asked_of_it = [
        {"family": family, "prompts": prompts(), "tokens": TOKENS}
        | ({} if alpha is None else {"alpha": alpha, "spans": SPANS, "layers": layers})
        for family in FAMILIES
        for _, alpha, layers in CASES
    ]
    found = iter(reference(folder, asked_of_it))
    for name in FAMILIES:
        numbered_tokenizer(folder / name)
    return folder, {family: [next(found) for _ in CASES] for family in FAMILIES}


@pytest.fixture(scope="module")
def models(expected: tuple[Path, Any]) -> Path:
    return expected[0]


def numbered_tokenizer(folder: Path) -> None:
    """Write a tokenizer whose tokens are `<0>`, `<1>` and so on, so that the text shows them."""
    core = Tokenizer(token_models.WordLevel({f"<{n}>": n for n in range(300)}, unk_token="<0>"))
    core.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<2>").save_pretrained(folder)


def text_of(token_ids: list[int]) -> str:
    return "".join(f"<{token}>" for token in token_ids if token != 2)


def reference(folder: Path, cases: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    run = subprocess.run(
        [PYTHON, "-P", str(REFERENCE), str(folder)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    found: list[list[dict[str, Any]]] = json.loads(run.stdout.splitlines()[-1])
    return found


@asynccontextmanager
async def served(folder: Path, log: Path, determinism: str = "strict") -> Any:
    engine = engine_of(ENTRY, EagerEngine)
    async with engine.running(EngineLoad(log, determinism, str(folder), PYTHON, "cpu")) as server:
        yield server


async def complete(
    server: Server, prompt: list[int], changes: dict[str, Any] | None = None, seed: int | None = None, **sampling: Any
) -> dict[str, Any]:
    settings = RequestSettings(sampling=GREEDY | sampling, changes=changes or {})
    return await server.complete(prompt, settings, seed)


def logprobs(response: dict[str, Any]) -> list[float]:
    return [float(value) for value in unpack_floats(response["logprobs"])]


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_are_those_of_transformers_and_steered_ones_those_of_an_independent_mask(
    expected: tuple[Path, dict[str, list[list[dict[str, Any]]]]], tmp_path: Path, family: str
) -> None:
    given, models = prompts(), expected[0]

    async def ask() -> list[list[dict[str, Any]]]:
        async with served(models / family, tmp_path / "server.log", "seeded") as server:
            found = []
            for _, alpha, layers in CASES:
                # 1e-9 must do what a mask does.
                changes = [None if alpha is None else asked(alpha or 1e-9, spans, layers) for spans in SPANS]
                answers = (complete(server, one, change) for one, change in zip(given, changes, strict=True))
                found.append(await asyncio.gather(*answers))
            return found

    found = asyncio.run(ask())
    for (name, *_), own, other in zip(CASES, found, expected[1][family], strict=True):
        for answer, reference_answer in zip(own, other, strict=True):
            assert answer["token_ids"] == reference_answer["token_ids"], name
            np.testing.assert_allclose(logprobs(answer), reference_answer["logprobs"], atol=2e-4, err_msg=name)
    plain, masked, tenth, some_layers = [[logprobs(one) for one in answers] for answers in found]
    for changed in (masked, tenth, some_layers):  # that a span can change an answer at all
        assert sum(one != other for one, other in zip(plain, changed, strict=True)) >= 3
    assert masked != tenth != some_layers


def test_alpha_1_is_the_plain_model_to_the_bit_and_seeds_and_batches_draw_the_same(
    models: Path, tmp_path: Path
) -> None:
    given = prompts(64, seed=1)
    drawn = {"temperature": 1.0, "top_p": 0.95, "max_tokens": 8}

    async def ask() -> tuple[list[dict[str, Any]], ...]:
        async with served(models / "llama", tmp_path / "server.log") as server:
            plain = [await complete(server, one, seed=n, **drawn) for n, one in enumerate(given)]
            one = [await complete(server, one, asked(1.0, [[3, 5]]), n, **drawn) for n, one in enumerate(given)]
            again = await asyncio.gather(*(complete(server, one, seed=n, **drawn) for n, one in enumerate(given[:16])))
            other = [await complete(server, one, seed=n + 1000, **drawn) for n, one in enumerate(given[:16])]
        async with served(models / "llama", tmp_path / "batched.log", "seeded") as server:
            batched = await asyncio.gather(*(complete(server, one, seed=n, **drawn) for n, one in enumerate(given)))
        return plain, one, list(again), other, list(batched)

    plain, one, again, other, batched = asyncio.run(ask())
    assert [row["token_ids"] for row in one] == [row["token_ids"] for row in plain]
    assert [row["logprobs"] for row in one] == [row["logprobs"] for row in plain]
    assert [(row["token_ids"], row["logprobs"]) for row in again] == [
        (row["token_ids"], row["logprobs"]) for row in plain[:16]
    ]
    assert sum(a["token_ids"] != b["token_ids"] for a, b in zip(other, plain[:16], strict=True)) >= 14
    assert sum(a["token_ids"] == b["token_ids"] for a, b in zip(batched, plain, strict=True)) >= 60


def test_an_answer_that_is_read_as_a_prompt_is_as_probable_as_it_was(models: Path, tmp_path: Path) -> None:
    async def ask() -> list[tuple[dict[str, Any], dict[str, Any]]]:
        async with served(models / "qwen2", tmp_path / "server.log") as server:
            said = [await complete(server, prompt) for prompt in prompts()]
            asked = [
                complete(server, prompt + one["token_ids"], prompt_logprobs=0, max_tokens=1)
                for prompt, one in zip(prompts(), said, strict=True)
            ]
            return list(zip(said, await asyncio.gather(*asked), strict=True))

    for said, read in asyncio.run(ask()):
        values = unpack_floats(read["prompt_logprobs"])
        assert len(values) == read["prompt_tokens"] - 1
        assert values[-TOKENS:] == pytest.approx(unpack_floats(said["logprobs"]), abs=1e-4)


def test_answers_end_as_they_are_asked_to(models: Path, tmp_path: Path) -> None:
    prompt = prompts()[0]

    async def ask() -> dict[str, Any]:
        async with served(models / "qwen2", tmp_path / "server.log") as server:
            whole = await complete(server, prompt)
            token = whole["token_ids"][4]
            found = {"whole": whole, "token": token}
            found["by_token"] = await complete(server, prompt, stop_token_ids=[token])
            found["not_yet"] = await complete(server, prompt, stop_token_ids=[token], min_tokens=8)
            # Two tokens hold it.
            stop = f"<{whole['token_ids'][2]}><{whole['token_ids'][3]}"[2:]
            found["stop"], stops = stop, ["<never>", stop]
            found["by_text"] = await complete(server, prompt, stop=stops)
            found["named"] = await complete(server, prompt, logprob_token_ids=[7, 9], max_tokens=2)
            samples = [await complete(server, prompt, seed=n, temperature=1.0, top_k=1) for n in range(3)]
            found["top_1"] = [row["token_ids"] for row in samples]
            found["refused"] = []
            for changes, more in (
                ({"attention": {"alpha": 0.1, "positions": [99]}}, {}),
                ({"attention": {"alpha": 0.0, "positions": [1]}}, {}),
                ({"attention": {"alpha": 0.1, "positions": [1], "layers": [4]}}, {}),
                (None, {"structured_outputs": {"regex": "a"}}),
                (None, {"max_tokens": 1000}),
            ):
                with pytest.raises(Rejected) as refused:
                    await complete(server, prompt, changes, **more)
                found["refused"].append(refused.value.message)
            found["metrics"] = await server.metrics()
            found["record"] = server.serving_record()
        return found

    found = asyncio.run(ask())
    whole, first = found["whole"], found["whole"]["token_ids"].index(found["token"])
    assert (whole["finish_reason"], whole["stop_reason"], len(whole["token_ids"])) == ("length", None, TOKENS)
    by_token = found["by_token"]
    assert (by_token["finish_reason"], by_token["stop_reason"]) == ("stop", found["token"])
    assert by_token["token_ids"] == whole["token_ids"][: first + 1]
    assert whole["text"] == text_of(whole["token_ids"])
    assert by_token["text"] == text_of(whole["token_ids"][:first]), "without the token that ended it"
    assert found["token"] not in found["not_yet"]["token_ids"][:8] and len(found["not_yet"]["token_ids"]) >= 8
    ended = found["by_text"]
    assert (ended["finish_reason"], ended["stop_reason"]) == ("stop", found["stop"])
    assert ended["text"] == whole["text"][: whole["text"].find(found["stop"])]
    assert ended["token_ids"] == whole["token_ids"][: len(ended["token_ids"])] and len(ended["token_ids"]) <= 4
    assert len(unpack_floats(found["named"]["named_logprobs"])) == 4
    assert found["top_1"] == [whole["token_ids"]] * 3
    places, alpha, layer, form, length = found["refused"]
    assert "places in the prompt of 24 tokens" in places and "more than 0 and at most 1" in alpha
    assert "layer 4 has no attention of this kind" in layer and "`structured_outputs` is not known" in form
    assert "are more than 128" in length
    assert found["metrics"]["requests"] >= 7 and found["metrics"]["generated_tokens"] > 0
    assert found["record"]["transformers"].startswith("5.") and "--max-model-len=128" in found["record"]["arguments"]


def test_models_whose_weights_are_not_whole_do_not_start(models: Path, tmp_path: Path) -> None:
    from refusal_eval.core.errors import UserError

    broken = tmp_path / "broken"
    broken.mkdir()
    for path in (models / "llama").iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    script = (
        "import sys; from safetensors.torch import load_file, save_file; p = sys.argv[1]; t = load_file(p);"
        "del t['model.layers.1.mlp.up_proj.weight']; save_file(t, p, {'format': 'pt'})"
    )
    subprocess.run([PYTHON, "-c", script, str(broken / "model.safetensors")], check=True)

    async def start() -> None:
        async with served(broken, tmp_path / "server.log"):
            pass

    with pytest.raises(UserError, match=r"no weights for model\.layers\.1\.mlp\.up_proj\.weight"):
        asyncio.run(start())
