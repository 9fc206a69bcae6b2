"""Compile forms of output as vLLM does, in the engine environment, and tell how far token ids keep to them.

Usage: python compile_forms.py CASES.json OUT.json. A case is {"tokenizer": folder, "sampling": what is sent with a
request, "streams": {name: token ids}}; for each stream the result has `taken`, how many of its ids the form allows, and
`whole`, whether the form is complete after them.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from transformers import AutoTokenizer
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend, validate_xgrammar_grammar
from vllm.v1.structured_output.request import get_structured_output_key


def main(cases_path: str, out: str) -> None:
    """Write the results of all cases."""
    cases = json.loads(Path(cases_path).read_text())
    Path(out).write_text(json.dumps({name: walked(case) for name, case in cases.items()}))


def walked(case: dict[str, Any]) -> dict[str, Any]:
    """Validate a form as the server's front does, compile it as the engine does, and walk along each stream."""
    tokenizer = AutoTokenizer.from_pretrained(case["tokenizer"])
    forms = SimpleNamespace(disable_any_whitespace=case["disable_any_whitespace"])
    config = SimpleNamespace(structured_outputs_config=forms, model_config=None, speculative_config=None)
    backend = XgrammarBackend(config, tokenizer=tokenizer, vocab_size=len(tokenizer))
    wanted = StructuredOutputsParams(**case["sampling"]["structured_outputs"])
    sampling = SamplingParams(structured_outputs=wanted, stop_token_ids=case["sampling"]["stop_token_ids"])
    validate_xgrammar_grammar(sampling)
    found = {}
    for name, token_ids in case["streams"].items():
        grammar = backend.compile_grammar(*get_structured_output_key(wanted), sampling.all_stop_token_ids)
        taken = 0
        for token_id in token_ids:
            if grammar.is_terminated() or len(grammar.validate_tokens([token_id])) == 0:
                break
            grammar.accept_tokens("x", [token_id])
            taken += 1
        found[name] = {"taken": taken, "whole": taken == len(token_ids) and grammar.is_terminated()}
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
