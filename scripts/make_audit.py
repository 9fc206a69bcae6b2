"""Draw a sample of a finished study's answers for people to label.

Usage: python scripts/make_audit.py --configfile STUDY.yaml [--size 200] [--raters 2] [--share 0.2] [--seed 0]

It writes results/STUDY/audit/: a page and a sheet for each rater under raters/, and the design and the sample, which
are not for raters. Same study, same arguments: same bytes. How to use it, and what the numbers mean: docs/labelling.md.
The files hold prompts and answers: do not publish them.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from show_status import load_config

from refusal_eval.core.errors import UserError
from refusal_eval.tools.audit.audit_command import told_or_error
from refusal_eval.tools.audit.audit_design import FACTORS, LEAST, assigned, draw
from refusal_eval.tools.audit.audit_folder import RATERS, Audit, audit_of, strata_table, write_audit
from refusal_eval.tools.audit.audit_items import STRATA, frame_of
from refusal_eval.tools.audit.audited_study import chosen, results_of, study_items, texts_of

ROOT = Path(__file__).resolve().parent.parent
SIZE = 200
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


def raters_of(text: str) -> list[str]:
    """Return the names of raters out of a number (`2`) or of names (`anna,ben`).

    Raises:
        UserError: for no rater, a name twice, or one that is no file name.
    """
    names = [f"rater_{i + 1}" for i in range(int(text))] if text.isdigit() else [n.strip() for n in text.split(",")]
    bad = [name for name in names if not _NAME.fullmatch(name)]
    if bad or not names or len(set(names)) < len(names):
        raise UserError(
            f"`--raters {text}`: give a number, or different names of lower-case letters, digits, - and _ with commas "
            "between them"
        )
    return names


def factors_of(pairs: Sequence[str]) -> dict[str, float]:
    """Return the factor of each stratum out of pairs such as `disagree=6`.

    Raises:
        UserError: for an unknown stratum or a factor that is not positive.
    """
    factors = dict(FACTORS)
    for pair in pairs:
        name, _, number = pair.partition("=")
        if name not in STRATA or not re.fullmatch(r"\d+(\.\d+)?", number) or float(number) <= 0:
            raise UserError(
                f"`--strata {pair}`: write NAME=FACTOR with one of {', '.join(STRATA)} and a factor above 0 (no answer "
                "may have the probability 0)"
            )
        factors[name] = float(number)
    return factors


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configfile", type=Path, default=ROOT / "config" / "config.yaml", help="the study")
    parser.add_argument("--size", type=int, default=SIZE, help="texts to be labelled (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default: 0)")
    parser.add_argument("--raters", default="2", help="a number, or names: anna,ben (default: 2)")
    parser.add_argument("--share", type=float, default=0.2, help="of rows for two raters (default: %(default)s)")
    parser.add_argument(
        "--strata", nargs="+", default=[], metavar="NAME=FACTOR", help="how much denser a stratum is drawn: disagree=4"
    )
    parser.add_argument("--least", type=int, default=LEAST, help="of each stratum (default: %(default)s)")
    parser.add_argument("--models", nargs="+", default=[], help="only answers of these models")
    parser.add_argument("--splits", nargs="+", default=[], help="only answers to these splits")
    parser.add_argument("--folder", type=Path, help="default: results/STUDY/audit")
    options = parser.parse_args(arguments)
    if options.size < 1 or options.least < 1 or not 0 <= options.share <= 1:
        parser.error("--size and --least must be at least 1, and --share between 0 and 1")
    return options


def make(options: argparse.Namespace) -> tuple[Path, Audit, bool]:
    """Draw the sample and write the folder; return the folder, the audit, and whether anything was written."""
    config = load_config(options.configfile.absolute())
    raters, factors = raters_of(options.raters), factors_of(options.strata)
    models = chosen(options.models, config["models"], "model")
    splits = chosen(options.splits, config["splits"], "split")
    items = study_items(config, models, splits)
    drawn = draw(items, options.size, options.seed, factors, options.least)
    orders = assigned([one.item.id for one in drawn], raters, options.share, options.seed)
    texts = texts_of(config, [one.item for one in drawn])
    arguments = {
        "study": config["study"],
        "size": options.size,
        "seed": options.seed,
        "share": options.share,
        "least": options.least,
        "factors": factors,
        "models": models,
        "splits": splits,
        "judges": list(config["judges"]),
    }
    audit = audit_of(arguments, strata_table(items, drawn), drawn, texts, orders, frame_of(items.values()))
    folder = options.folder or results_of(config) / "audit"
    return folder, audit, write_audit(folder, audit)


def told(folder: Path, audit: Audit, written: bool) -> str:
    """Return what is printed: the strata, and what to do with the files."""
    lines = [f"Audit {audit.name} of study {audit.design['study']}: {len(audit.sample)} texts to label", ""]
    lines.append(f"{'what judges say':<16}{'answers':>9}{'texts':>9}{'drawn':>7}   probability")
    for name, row in audit.design["strata"].items():
        low, high = row["probability"]["lowest"], row["probability"]["highest"]
        ends = f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g}"
        lines.append(f"{name:<16}{row['answers']:>9}{row['texts']:>9}{row['drawn']:>7}   {ends}")
    double = sum(len(row["raters"]) > 1 for row in audit.sample.values())
    shares = ", ".join(f"{rater} {len(names)}" for rater, names in audit.orders.items())
    lines += ["", f"Rows: {shares}; {double} of them go to two raters."]
    if not double:
        lines.append("No row has two raters: how far people agree will not be known.")
    if not written:
        lines.append(f"{folder} holds this audit already; nothing was written.")
    lines += [
        f"Give each rater the page {folder / RATERS}/NAME.html (or NAME.csv with NAME.txt), and nothing else: other",
        'files name the models. Then: make audit-read CONFIG=... LABELS="the files that come back".',
        "These files hold prompts and answers: do not publish them.",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    return told_or_error(lambda: told(*make(parse(arguments))))


if __name__ == "__main__":
    sys.exit(main())
