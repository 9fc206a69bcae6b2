"""Prompts that a model refuses, written token by token by a fluent model under the control of the refusing one."""

ROW_SOURCES = {"controlled": "controlled_rows:ControlledRows"}
CHECKS = {"controlled": "controlled_mistakes:controlled_mistakes"}
RULES = ("controlled",)
FILES = {
    "search_items": "controlled_files:SEARCH_ITEMS",
    "searches": "controlled_files:SEARCHES",
    "found_prompts": "controlled_files:FOUND_PROMPTS",
}
