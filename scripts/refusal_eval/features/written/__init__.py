"""Prompts that a model of the catalogue writes from those of another split, or of which it says that they will do."""

ROW_SOURCES = {
    "filled": "filled_rows:FilledRows",
    "vetted": "vetted_rows:VettedRows",
    "written": "written_rows:WrittenRows",
}
CHECKS = {"written": "written_mistakes:written_mistakes"}
ANALYSES = {"written": "written_analysis:WrittenAnalysis"}
TABLES = {"written": "written_table:WrittenTable"}
