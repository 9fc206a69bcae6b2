"""The browser: all answers of a study, with what the judges say of them, as one page that is opened from disk.

See docs/how-to/browse_answers.md.
"""

RULES = ["browser"]
VERBS = {"browse": "browse_verb:BrowseVerb"}
STUDY_KEYS = {"browser": "browser_keys:BrowserKeys"}
FILES = {"browser": "browser_files:BROWSER"}
ANSWER_PAGES = {"browser": "answer_links:BrowserPage"}
