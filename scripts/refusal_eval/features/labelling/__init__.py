"""The labelling kit: a sample of a study's answers for people to label, and the way of their labels back (docs/labelling.md)."""

VERBS = {"audit": "audit_verb:AuditVerb"}
