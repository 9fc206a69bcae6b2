"""An engine that answers by a script: the first pattern that a request holds decides. It can be killed on the way.

Each request that reaches it is a line of a log, so that a test can say what was asked, and how often.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from refusal_eval.ask.keys import EnginePrompt
from refusal_eval.ask.requests import RequestSettings
from refusal_eval.config.engine_entry import Capability, Engine
from refusal_eval.config.kinds import ENGINES
from refusal_eval.config.shapes import Text
from refusal_eval.engines.engine_base import EngineLoad, RunningEngine

BLOCKED, CUT = "<blocked>", "<cut>"  # begin replies that are none
IN_FLIGHT = "!"  # ends a point of a kill


@ENGINES.add
class ScriptedEngine(Engine):
    """Answers out of the file script.json in its folder, pairs of a pattern and a reply (`\\1` is a group).

    A line of the file kills.txt is a number of requests after which its process ends, each once: before the next one
    reaches it, or, with `!` behind the number, while that one is in flight.
    """

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"writes_text", "takes_messages", "seeds", "may_block"})

    kind: Literal["scripted"]
    served: Text
    folder: Text

    def most_at_once(self, device: str | None) -> int:
        """One, so that a test knows which request is the next."""
        return 1

    def identity(self, weights: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return what is in the key of every request."""
        return {"kind": self.kind, "served": self.served}

    def running(self, load: EngineLoad) -> Scripted:
        """Return the engine for one load."""
        return Scripted(self)


class Scripted(RunningEngine):
    """One load."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self._engine, self._folder = engine, Path(engine.folder)
        self._script = json.loads((self._folder / "script.json").read_text(encoding="utf-8"))

    async def complete(self, prompt: EnginePrompt, settings: RequestSettings, seed: int | None) -> dict[str, Any]:
        """Return the response to one request."""
        asked = str(list(prompt)[-1]["content"])  # type: ignore[index]
        log, kills = self._folder / "asked.jsonl", self._folder / "kills.txt"
        before = len(log.read_text(encoding="utf-8").splitlines()) if log.exists() else 0
        points = kills.read_text(encoding="utf-8").split() if kills.exists() else []
        points.sort(key=_place)
        killed = bool(points) and _place(points[0])[0] <= before  # of two loads at a time, both may pass a number
        if killed:
            kills.write_text("\n".join(points[1:]), encoding="utf-8")
        if killed and not points[0].endswith(IN_FLIGHT):
            os.kill(os.getpid(), signal.SIGKILL)
        line = {"served": self._engine.served, "asked": asked, "seed": seed} | ({"killed": True} if killed else {})
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if killed:
            os.kill(os.getpid(), signal.SIGKILL)
        found = ((re.search(pattern, asked, re.DOTALL), reply) for pattern, reply in self._script)
        text = next(match.expand(reply) for match, reply in found if match)
        response = {"text": text, "token_ids": [], "logprobs": None, "finish_reason": "stop", "stop_reason": None}
        if text.startswith(BLOCKED):
            return response | {"text": "", "finish_reason": "content_filter"}
        return response | ({"text": text.removeprefix(CUT), "finish_reason": "length"} if text.startswith(CUT) else {})

    def serving_record(self) -> dict[str, Any]:
        """Return what served."""
        return {"served": self._engine.served}


def _place(point: str) -> tuple[int, bool]:
    """Return the order of the points of kills."""
    return int(point.removesuffix(IN_FLIGHT)), point.endswith(IN_FLIGHT)
