"""Take the README's figure, and the tables behind it, from a finished run of the demo.

    .venv/workflow/bin/python docs/copy_demo.py

A test holds the README's caption and its table against these, and the rates against the demo's configuration.
"""

from __future__ import annotations

import shutil
from pathlib import Path

DOCS = Path(__file__).resolve().parent
DEMO = DOCS.parent / "results" / "demo"

if __name__ == "__main__":
    shutil.copyfile(DEMO / "figures" / "refusal_heatmap.png", DOCS / "demo_heatmap.png")
    for table in ("refusal", "comparisons"):
        shutil.copyfile(DEMO / "tables" / f"{table}.csv", DOCS / f"demo_{table}.csv")
