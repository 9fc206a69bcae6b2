"""Start the real engine on a folder with malicious pickles, look at it from inside and as another user, print JSON.

    security_probe.py MODEL_FOLDER FOLDER

Run by test_security.py, as root in a namespace where the host's name stands for a network address.
"""

import asyncio
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

from engine_entries import server
from other_user import OTHER_USER, as_other_user, attempts_on
from project import ROOT

from refusal_eval.ask.requests import RequestSettings
from refusal_eval.engines.listeners import listeners_of
from refusal_eval.engines.vllm_engine import VllmEngine
from refusal_eval.study.engine_environment import engine_python

SAMPLING = {"max_tokens": 4, "temperature": 1.0, "stop_token_ids": [2]}


async def look(model: Path, folder: Path) -> dict[str, Any]:
    """Return what was seen while the engine ran."""
    entry = VllmEngine.model_validate(
        {
            "weights": {"kind": "folder", "path": str(model)},
            "max_model_len": 512,
            "memory_share": 0.15,
            "args": {"enforce-eager": True},
        }
    ).model_dump(mode="json")
    log = folder / "engine.server.log"
    engine = server(entry, str(model), engine_python(entry, ROOT), "cpu", "seeded", log)
    async with engine:
        response = await engine.complete([1, 504, 338], RequestSettings(sampling=SAMPLING), 7)
        private = Path(engine._private)
        processes = engine.processes()
        environments = [Path(f"/proc/{pid}/environ").read_bytes() for pid in processes]
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in processes]
        seen = {
            "tokens": len(response["token_ids"]),
            "processes": len(processes),
            "mode": stat.S_IMODE(private.stat().st_mode),
            "sockets": sorted(path.name for path in private.iterdir() if stat.S_ISSOCK(path.lstat().st_mode)),
            "listeners": [[one.address, one.on_loopback] for one in listeners_of(processes)],
            "secret_in_environment": any(b"PLANTEDTOKEN" in text for text in environments),
            "secret_in_command": any(b"PLANTEDTOKEN" in text for text in commands),
        }
        if os.getuid() == 0:
            seen["other_user"] = attempts_on(private / "engine.sock", private)
            environ = f"/proc/{processes[0]}/environ"
            seen["other_user"]["environment"] = as_other_user(lambda: Path(environ).read_bytes())
            seen["other_user"]["itself"] = as_other_user(lambda: os.getuid() == OTHER_USER)
    seen["left"] = private.exists()
    return seen


if __name__ == "__main__":
    print(json.dumps(asyncio.run(look(Path(sys.argv[1]), Path(sys.argv[2])))))
