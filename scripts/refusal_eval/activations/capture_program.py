"""Captures the residual stream of a language model, for the engine environment: token ids in, safetensors out.

Usage: python capture_program.py JOB.json

A program of its own: it imports torch and transformers, and nothing of this library, which that environment does not
have. Captured is the output of whole decoder layers, by hooks: transformers' last `hidden_states` are those after the
final norm. Each batch of prompts becomes one file as soon as it is computed, so that a killed run loses one batch.

The job is JSON: `folder` (the model), `dtype`, `device` (cpu or cuda), `gpus`, `trust_remote_code`, `layers` (0-based),
`model_layers`, `out` (the folder of the files), `writer` (what their names say after the time), `most_tokens` (of a
padded batch), `most_prompts` (of a batch), `metadata` (what each file says besides its keys), `intervention` (None, or
the `file` and `sha256` of what is done to the stream) and `items`: `key`, `token_ids`, and `first`, the place of the
first token whose states are averaged (None: only the last token counts).
"""

from __future__ import annotations

import datetime
import json
import os
import runpy
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

FIRST_CALLS = Path(__file__).resolve().parents[1] / "engines" / "first_calls.py"
STREAM = FIRST_CALLS.parent / "vllm_worker" / "steered_stream.py"
LAYER_LISTS = ("layers", "h", "blocks")  # how models call the list of their decoder layers
SECONDS_BETWEEN_LINES = 5.0
Item = dict[str, Any]


class Capture:
    """A model with hooks on its decoder layers, during a `with` block."""

    def __init__(self, job: dict[str, Any]) -> None:
        import torch

        runpy.run_path(str(FIRST_CALLS))
        model, missing = load_model(job)
        self._torch, self._dtype = torch, getattr(torch, job["dtype"])
        self._decoder, layers = text_decoder(model, job["model_layers"])
        refuse_made_up(model, self._decoder, missing)
        self._steered: Counter[int] = steer(layers, **job["intervention"]) if job["intervention"] else Counter()
        self._layers = {number: layers[number] for number in job["layers"]}
        self._pad = model.config.get_text_config().pad_token_id or 0
        self._device = model.get_input_embeddings().weight.device
        self._hooks: list[Any] = []
        self._kept: dict[int, Any] = {}
        self._counts: list[tuple[int, int]] = []  # of each prompt of the batch, the positions that count

    def __enter__(self) -> Capture:
        for number, layer in self._layers.items():
            self._hooks.append(layer.register_forward_hook(self._hook(number)))
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _hook(self, number: int) -> Any:
        def keep(_: Any, __: Any, output: Any) -> None:
            states = output[0] if isinstance(output, tuple) else output
            # In float32; the mean of one position is its state, to the last bit.
            means = [states[row, first:end].float().mean(0) for row, (first, end) in enumerate(self._counts)]
            self._kept[number] = self._torch.stack(means).to(self._dtype).cpu()

        return keep

    def states(self, batch: Sequence[Item]) -> Any:
        """Return the states of a batch, [prompts, layers, width], in the model's number format.

        Shorter prompts are padded on the right: no position that counts sees the padding.
        """
        torch, width = self._torch, max(len(item["token_ids"]) for item in batch)
        ids = torch.full((len(batch), width), self._pad, dtype=torch.long)
        mask, self._counts = torch.zeros_like(ids), []
        for row, item in enumerate(batch):
            length = len(item["token_ids"])
            first = length - 1 if item["first"] is None else item["first"]
            ids[row, :length] = torch.tensor(item["token_ids"])
            mask[row, :length] = 1
            self._counts.append((first, length))
        self._kept, before = {}, self._steered.copy()
        with torch.inference_mode():
            self._decoder(
                input_ids=ids.to(self._device), attention_mask=mask.to(self._device), use_cache=False, return_dict=True
            )
        silent = sorted(set(self._layers) - set(self._kept))
        silent += sorted(layer for layer in before if self._steered[layer] == before[layer])
        if silent:
            sys.exit(f"the hooks of the layers {silent} did not fire: nothing of this batch is kept")
        return torch.stack([self._kept[number] for number in self._layers], dim=1).contiguous()


def load_model(job: dict[str, Any]) -> tuple[Any, Collection[str]]:
    """Return the model on its devices, with its vision tower if it has one, and the weights that its files lack."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": job["trust_remote_code"]}
    config = AutoConfig.from_pretrained(job["folder"], **options)
    options |= {"dtype": getattr(torch, job["dtype"]), "use_safetensors": True}
    if getattr(config.get_text_config(), "attn_logit_softcapping", None):
        options["attn_implementation"] = "eager"  # sdpa leaves this cap (of Gemma 2) out without a word
    if job["device"] == "cuda":  # straight onto the GPU; without it the model is first built in main memory
        options["device_map"] = "auto" if job["gpus"] > 1 else {"": job["device"]}
    loader: Any = AutoModelForImageTextToText if hasattr(config, "vision_config") else AutoModelForCausalLM
    model, loaded = loader.from_pretrained(job["folder"], output_loading_info=True, **options)
    return model.eval(), loaded["missing_keys"]


def refuse_made_up(model: Any, decoder: Any, missing: Collection[str]) -> None:
    """End the program if weights of the decoder are missing: transformers makes them up, and only its log says so."""
    own = {id(part) for part in decoder.parameters()}
    if lacking := [name for name, part in model.named_parameters() if name in missing and id(part) in own]:
        sys.exit(f"the model's files have no {lacking[0]} ({len(lacking)} weights of its decoder are missing)")


def text_decoder(model: Any, depth: int) -> tuple[Any, Any]:
    """Return the text model without its head, and the list of its decoder layers; never a vision tower.

    Raises:
        SystemExit: if there is not exactly one list of `depth` layers in it.
    """
    import torch

    decoder = model.get_decoder()
    found = [
        module
        for name, module in decoder.named_modules()
        if isinstance(module, torch.nn.ModuleList) and len(module) == depth and name.split(".")[-1] in LAYER_LISTS
    ]
    if len(found) != 1:
        sys.exit(
            f"{type(model).__name__}: its decoder layers cannot be found ({len(found)} lists of {depth} layers called "
            f"{', '.join(LAYER_LISTS)} in its text model)"
        )
    return decoder, found[0]


def steer(layers: Any, file: str, sha256: str) -> Counter[int]:
    """Put an intervention on decoder layers, and return how often each of its hooks fires; it goes on counting.

    The arithmetic is that of vLLM's worker. Hooks that are added later see the stream as these leave it.

    Args:
        file, sha256: the compiled intervention.
    """
    stream = runpy.run_path(str(STREAM))
    spec, tensors = stream["read_intervention"](file, sha256)
    change, gate = stream["MODES"][spec["mode"]], spec["gate"]
    fired = Counter(dict.fromkeys(spec["layers"], 0))

    def hook(index: int, layer: Any, _: Any, output: Any) -> Any:
        fired[index] += 1
        states = output[0] if isinstance(output, tuple) else output
        h = states.float()
        changed = (h + change(layer, h, gate)).to(states.dtype)
        return (changed, *output[1:]) if isinstance(output, tuple) else changed

    for index in spec["layers"]:
        stream["prepare"](layers[index], index, tensors)
        layers[index].register_forward_hook(partial(hook, index))
    return fired


def batches(items: Sequence[Item], most_tokens: int, most_prompts: int) -> Iterator[list[Item]]:
    """Yield the items in batches of like length, the longest first, so that memory runs out at once or never."""
    ordered = sorted(items, key=lambda item: (-len(item["token_ids"]), item["key"]))
    batch: list[Item] = []
    for item in ordered:
        width = len(batch[0]["token_ids"]) if batch else len(item["token_ids"])
        if batch and (len(batch) == most_prompts or width * (len(batch) + 1) > most_tokens):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def save(folder: Path, name: str, states: Any, metadata: dict[str, str]) -> None:
    """Write a file in one step; before its name stands when it was complete.

    The first record of a state counts, in the order of names: with the time at which the job began, a file would come
    before others that were written, and read, while it was computed.
    """
    from safetensors.torch import save_file

    temporary = folder / f".{name}.tmp"
    save_file({"states": states}, str(temporary), metadata=metadata)
    # safetensors makes files private; a store that users share follows their umask.
    umask = os.umask(0)
    os.umask(umask)
    with open(temporary, "rb") as handle:
        os.fchmod(handle.fileno(), 0o666 & ~umask)
        os.fsync(handle.fileno())
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%f")
    os.replace(temporary, folder / f"{now}-{name}")


def main(job_path: str) -> None:
    """Capture all items of a job."""
    job = json.loads(Path(job_path).read_text(encoding="utf-8"))
    out, items = Path(job["out"]), job["items"]
    out.mkdir(parents=True, exist_ok=True)
    tokens = sum(len(item["token_ids"]) for item in items)
    with Capture(job) as capture:
        started = said = time.monotonic()
        done = done_tokens = 0
        for number, batch in enumerate(batches(items, job["most_tokens"], job["most_prompts"])):
            states = capture.states(batch)
            metadata = {**job["metadata"], "keys": [item["key"] for item in batch], "layers": job["layers"]}
            text = json.dumps(metadata, sort_keys=True, separators=(",", ":"))
            save(out, f"{job['writer']}-{number:06d}.safetensors", states, {"refusal_eval": text})
            done, done_tokens = done + len(batch), done_tokens + sum(len(item["token_ids"]) for item in batch)
            now = time.monotonic()
            if now - said > SECONDS_BETWEEN_LINES or done == len(items):
                said, rate = now, done_tokens / max(now - started, 1e-9)
                left = round((tokens - done_tokens) / rate)
                print(f"captured {done} of {len(items)} prompts, {rate:.0f} tokens/s, about {left} s left", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
