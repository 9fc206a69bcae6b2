"""Models that vLLM cannot serve with batch-invariant kernels, which `determinism: strict` needs on a GPU."""

from __future__ import annotations

from pathlib import Path

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json

# Beginnings of the architectures (of config.json) with Mamba, gated delta net, short convolutions or linear attention:
# none of their kernels in vLLM 0.32 is batch-invariant.
NOT_INVARIANT = (
    *("BailingMoeV2_5", "BailingMoeV3", "FalconH1", "FalconMamba", "Glm5Next", "GraniteMoeHybrid", "InternS2", "Jamba"),
    *("KimiK3", "KimiLinear", "Lfm2", "Mamba", "MiniCPMV4_6", "MiniCPMV4_7", "NemotronH", "OlmoHybrid"),
    *("Qwen3Next", "Qwen3_5", "Qwen4Exp", "Zamba2"),
)


def refuse_strict(engine: str, folder: str | Path) -> None:
    """Raise `UserError` if the model in this folder cannot be served strictly on a GPU.

    vLLM itself says so only when the GPUs are there and the weights are loaded. Without a config.json nothing is known.

    Args:
        engine: name of the engine.
        folder: its model folder.
    """
    path = Path(folder) / "config.json"
    config = read_json(path) if path.is_file() else {}
    architectures = [str(name) for name in config.get("architectures") or ()]
    method = (config.get("quantization_config") or {}).get("quant_method")
    if recurrent := [name for name in architectures if name.startswith(NOT_INVARIANT)]:
        lacks = f"the layers of {recurrent[0]}"
    elif method == "mxfp4":
        lacks = "MXFP4 weights that need no compiler"
    else:
        return
    raise UserError(
        f"engine {engine}: `determinism: strict` cannot be had on a GPU, because vLLM has no batch-invariant kernels "
        f"for {lacks}. Write `determinism: seeded` into the study, or leave its models out"
    )
