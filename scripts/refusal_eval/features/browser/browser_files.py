"""The file of the browser."""

from refusal_eval.features.browser.browser_keys import BrowserKeys
from refusal_eval.study.files import File

BROWSER = File(
    ("browser.html",),
    ("browser",),
    lambda study: [()] if BrowserKeys.of(study.settings).browser else [],
    of_report=True,
    after="methods",
)
