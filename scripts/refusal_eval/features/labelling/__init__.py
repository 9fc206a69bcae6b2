"""The labelling kit: a sample of answers for people to label, and their labels on the way back (docs/labelling.md)."""

VERBS = {"audit": "audit_verb:AuditVerb"}
