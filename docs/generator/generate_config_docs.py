"""Write what is generated from the config's classes, from the catalogue and from the data dictionary.

From the classes: config/config.schema.json, config/catalogue.schema.json and the tables of config/README.md. In
docs/reference: splits.md, models.md and gold.md from the catalogue, estimands.md from the dictionary of estimands, and
command_line.md from the help of every verb.

    PYTHONPATH=scripts .venv/workflow/bin/python docs/generator/generate_config_docs.py

With `--check`, write nothing: show what differs and exit with 1 if anything does.
"""

import argparse
import difflib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from catalogue_pages import catalogue_page
from command_line import command_line_page
from config_reference import catalogue_schema, study_schema, with_reference
from wrapped import wrapped

from refusal_eval.core.files import write_text
from refusal_eval.program.text_templates import render_template
from refusal_eval.report.results.dictionary import subjects

ROOT = Path(__file__).resolve().parents[2]
ESTIMANDS = Path(__file__).with_name("estimands.md.j2")


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only show what differs from the files")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository's folder")
    options = parser.parse_args(arguments)
    drifted = False
    for path, wanted in generated(options.root).items():
        found = path.read_text(encoding="utf-8") if path.is_file() else ""
        if found == wanted:
            continue
        if options.check:
            drifted = True
            lines = (found.splitlines(keepends=True), wanted.splitlines(keepends=True))
            sys.stdout.writelines(difflib.unified_diff(*lines, f"{path} (as it is)", f"{path} (as it should be)"))
        else:
            write_text(path, wanted)
            print(f"wrote {path}")
    if drifted:
        print("These files are generated and differ from the code: run `make schema`.", file=sys.stderr)
    return int(drifted)


def generated(root: Path) -> dict[Path, str]:
    """Return the generated files with what they should hold."""
    config = root / "config"
    reference = root / "docs" / "reference"
    files = {
        config / "config.schema.json": _json(study_schema()),
        config / "catalogue.schema.json": _json(catalogue_schema()),
        config / "README.md": with_reference((config / "README.md").read_text(encoding="utf-8")),
        reference / "command_line.md": command_line_page(),
        reference / "estimands.md": render_template(ESTIMANDS, {"subjects": subjects()}),
        **{reference / f"{name}.md": catalogue_page(name, str(root)) for name in ("splits", "models", "gold")},
    }
    return {path: wrapped(text) if path.parent == reference else text for path, text in files.items()}


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main())
