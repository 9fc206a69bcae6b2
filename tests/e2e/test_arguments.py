"""vLLM's own parser reads the server's command line as it was meant."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from engine_entries import server_command

from refusal_eval.engines.vllm_engine import FORMS, VllmEngine
from refusal_eval.features.lora.adapter import Adapter
from refusal_eval.study.engine_environment import ENGINE_FOLDER

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
PARSER = """
import json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
names, *words = sys.argv[1:]
found = make_arg_parser(FlexibleArgumentParser()).parse_args(words)
print(json.dumps({name: getattr(found, name) for name in names.split(",")}, default=vars))
"""


def parsed(entry: dict[str, Any], names: str) -> subprocess.CompletedProcess[str]:
    """Return what vLLM's parser makes of a server's command line."""
    adapters = [Adapter("a", {}, "lora-a", "/a=b/with space", 8), Adapter("b", {}, "lora-b", "/other", 8)]
    words = server_command("", "/models/a=b c", entry, "cuda", "seeded", "/t m/p=q.sock", adapters)[3:]
    python = str(ROOT / ENGINE_FOLDER / "bin" / "python")
    return subprocess.run([python, "-c", PARSER, names, *words], capture_output=True, text=True, check=False)


def test_vllm_reads_every_value_as_that_of_its_argument() -> None:
    args = {
        "hf-overrides": '{"a": "x=y -- z"}',
        "no-enable-prefix-caching": True,
        "enforce-eager": True,
        "watermark": 0.5,
        "compilation-config.mode": 3,
    }
    weights = {"kind": "hub", "repo": "a/b", "revision": "a" * 40}
    entry = VllmEngine(weights=weights, max_model_len=512, args=args).model_dump(mode="json")  # type: ignore[arg-type]
    names = "model,model_tag,uds,hf_overrides,enable_prefix_caching,enforce_eager,watermark,max_model_len"
    run = parsed(entry, names + ",structured_outputs_config,lora_modules")
    found = json.loads(run.stdout.splitlines()[-1])
    adapters, forms = found.pop("lora_modules"), found.pop("structured_outputs_config")
    assert found == {
        "model": "/models/a=b c",
        "model_tag": None,
        "uds": "/t m/p=q.sock",
        "hf_overrides": {"a": "x=y -- z"},
        "enable_prefix_caching": False,
        "enforce_eager": True,
        "watermark": 0.5,
        "max_model_len": 512,
    }
    assert forms | FORMS == forms
    assert [one["path"] for one in adapters] == ["/a=b/with space", "/other"]
    # The check of the config aside: a switch takes no value, be it an argument or, without a name, a model.
    for value in ("--model=/tmp/other", "/tmp/other"):
        run = parsed(entry | {"args": {"enforce-eager": value}}, "model")
        assert run.returncode != 0 and f"ignored explicit argument '{value}'" in run.stderr
