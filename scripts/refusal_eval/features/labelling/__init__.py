"""The labelling kit: a sample of answers for people to label, and their labels on the way back.

See docs/how-to/human_labels.md.
"""

VERBS = {"audit": "audit_verb:AuditVerb"}
