"""Prompts that a model refuses, written token by token by a fluent model under the control of the refusing one."""

ROW_SOURCES = {"controlled": "controlled_rows:ControlledRows"}
CHECKS = {"controlled": "controlled_mistakes:controlled_mistakes"}
RULES = ("controlled",)
PROGRAM_LOADS = {"searches": "planned_searches:planned_searches"}
FILES = {
    "search_items": "controlled_files:SEARCH_ITEMS",
    "searches": "controlled_files:SEARCHES",
    "found_prompts": "controlled_files:FOUND_PROMPTS",
}
