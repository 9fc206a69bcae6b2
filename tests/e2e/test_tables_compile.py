"""All tables and captions of a study with hostile labels through a real pdflatex, its methods through BibTeX too."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from project import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from made_up_study import STUDY, Size, make_study
from realistic_study import make_realistic
from rule_jobs import planned, run

LABELS = (
    r"a_b % $c$ #d & ~e ^f \input{/etc/passwd} {g}",
    "模型 中文 「拒绝」",
    "A label that is far longer than any table can hold and that goes on and on without saying anything about it",
    "org/Model-7B--Instruct_v0.1 [x]* ``q'' ?` <|end|>",
    "Émigré naïf \u2013 Größe, ça va",
    "Ωμέγα русский 😀 \u202ebidi",
)
OVERFULL = re.compile(r"Overfull \\hbox \((\d+\.\d+)pt too wide\)")
MOST_OVERFULL = 10.0  # points; more is seen on the page

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        shutil.which("pdflatex") is None,
        reason="needs pdflatex with booktabs and siunitx (docs/reference/tables.md says how to get it)",
    ),
]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of 20 models, whose every label is hostile; its results folder."""
    folder = tmp_path_factory.mktemp("tables")
    file = make_study(folder, Size(models=20, splits=4, prompts=24, samples=2, judges=2, labels=LABELS), processes=2)
    assert list(run(planned(file, folder, {}), folder, processes=2))
    return folder / "results" / STUDY


def compiled(folder: Path, body: str, packages: str = "") -> str:
    """Compile a document, again where LaTeX asks for it; return its log, and leave page.pdf in the folder."""
    preamble = (
        "\\documentclass{article}\n\\usepackage[a4paper,margin=2.5cm]{geometry}\n"
        f"\\usepackage{{booktabs,siunitx,longtable}}\n{packages}\\begin{{document}}\n"
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "page.tex").write_text(f"{preamble}{body}\n\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    for _ in range(3):
        done = subprocess.run(command, cwd=folder, capture_output=True, env={**os.environ, "max_print_line": "10000"})
        log = (folder / "page.log").read_text(encoding="utf-8", errors="replace")
        assert done.returncode == 0, log[-3000:]
        if "Table widths have changed" not in log:  # a longtable knows its columns only then
            break
    return log


def test_every_table_compiles_and_fits_its_page(study: Path, tmp_path: Path) -> None:
    tables = sorted((study / "tables").glob("*.tex"))
    wanted = {"refusal", "judge_errors", "categories", "scores", "states", "votes", "judges", "judge_cards"}
    assert wanted <= {t.stem for t in tables}
    for table in tables:
        log = compiled(tmp_path / table.stem, table.read_text(encoding="utf-8"))
        wide = [float(points) for points in OVERFULL.findall(log)]
        assert max(wide, default=0.0) <= MOST_OVERFULL, (table.name, wide)
        assert "Float too large" not in log, table.name


def test_chinese_labels_are_printed_where_the_package_is_there(study: Path, tmp_path: Path) -> None:
    if not subprocess.run(["kpsewhich", "c70gbsn.fd"], capture_output=True).stdout.strip():
        pytest.skip("needs CJKutf8 and gbsn (docs/reference/tables.md says how to get them)")
    table = (study / "tables" / "refusal.tex").read_text(encoding="utf-8")
    compiled(tmp_path, table, "\\usepackage{CJKutf8}\n")
    if shutil.which("pdftotext"):
        text = subprocess.run(["pdftotext", "page.pdf", "-"], cwd=tmp_path, capture_output=True, text=True).stdout
        assert "模型" in text


def test_every_figure_compiles_by_its_own_file_and_fits_its_page(study: Path, tmp_path: Path) -> None:
    figures = sorted(path for path in (study / "figures").glob("*.tex") if not path.stem.count("."))
    figures = [path for path in figures if path.stem != "captions_preamble"]
    assert {"refusal_heatmap", "c_histograms", "tau_sweep"} <= {path.stem for path in figures}
    body = "\\listoffigures\n"
    body += "".join(
        f"\\input{{{study}/figures/{path.name}}}\nFigure~\\ref{{fig:{path.stem.replace('_', '-')}}}.\\clearpage\n"
        for path in figures
    )
    preamble = f"\\usepackage{{graphicx}}\n\\input{{{study}/figures/captions_preamble}}\n"
    preamble += f"\\newcommand{{\\refusalevalfigures}}{{{study}/figures}}\n"
    compiled(tmp_path, body, preamble)
    log = compiled(tmp_path, body, preamble)  # the list of figures is there now
    assert "undefined" not in log and "Float too large" not in log


def test_every_long_caption_compiles_where_it_is_pasted(study: Path, tmp_path: Path) -> None:
    captions = sorted((study / "figures").glob("*.caption_long.tex"))
    shutil.copy(study / "figures" / "captions_preamble.tex", tmp_path)
    body = "".join(
        f"\\begin{{figure}}\n\\caption{{{caption.read_text(encoding='utf-8')}}}\n\\end{{figure}}\n\\clearpage\n"
        for caption in captions
    )
    assert captions
    compiled(tmp_path, body, "\\input{captions_preamble}\n")


def test_tables_and_short_methods_of_eight_models_fill_three_pages_of_a_narrow_paper(tmp_path: Path) -> None:
    file = make_realistic(tmp_path, models=8, splits=9)  # names as long as those of real models and data sets
    every = planned(file, tmp_path, {"paper": {"width": "5.5in"}})
    needed = [
        [job for job in level if "/figures/" not in job.outputs[0] or "/heatmap." in job.outputs[0]] for level in every
    ]
    assert list(run(needed, tmp_path, processes=2))
    results = tmp_path / "results" / STUDY
    parts = ("methods_short", "tables/refusal", "figures/heatmap", "tables/comparisons")
    body = "\n".join((results / f"{part}.tex").read_text(encoding="utf-8") for part in parts)
    narrow = "\\geometry{letterpaper,textwidth=5.5in,textheight=9in}\n\\usepackage{graphicx}\n"
    narrow += f"\\newcommand{{\\refusalevalfigures}}{{{results / 'figures'}}}\n"
    log = compiled(tmp_path, body, narrow)
    assert max(map(float, OVERFULL.findall(log)), default=0.0) <= 1.0
    (pages,) = re.findall(r"Output written on page.pdf \((\d+) page", log)
    assert int(pages) <= 3


def test_methods_and_references_compile(study: Path, tmp_path: Path) -> None:
    shutil.copy(study / "references.bib", tmp_path)
    body = (study / "methods.tex").read_text(encoding="utf-8")
    body += "\n\\bibliographystyle{plain}\n\\bibliography{references}\n"
    compiled(tmp_path, body, "\\usepackage{url}\n")
    done = subprocess.run(["bibtex", "page"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "Warning--I didn't find" not in done.stdout, done.stdout
    compiled(tmp_path, body, "\\usepackage{url}\n")
    log = compiled(tmp_path, body, "\\usepackage{url}\n")
    assert "There were undefined" not in log
