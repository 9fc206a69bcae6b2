"""What the published code of Refusal Steering (arXiv 2512.16602) does with answers and verdicts, in our own words.

It is here to be compared with, not to be used: the package `refusal_eval` itself scores the way its README says. The
behaviour was written down from descriptions and from what the code returned for known inputs; none of it is copied.
"""

RULES = ["published"]
FILES = {
    "published_answers": "published_files:PUBLISHED_ANSWERS",
    "published": "published_files:PUBLISHED",
}
TABLES = {"protocol_effects": "effects_table:ProtocolEffectsTable"}
PROTOCOLS = {"compat": "compat_protocol:CompatProtocol"}
VERBS = {"import": "import_verb:ImportVerb"}
EXPORTERS = {"published": "published_exporter:PublishedExporter"}
