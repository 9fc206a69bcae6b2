"""The verb `audit`, as the program lists it."""

from refusal_eval.program.verb import Command, Verb


class AuditVerb(Verb):
    """The labelling kit."""

    name = "audit"
    does = "draw a sample of answers for people to label, and read their labels back"

    @staticmethod
    def command() -> Command:
        from refusal_eval.features.labelling.audit_command import command

        return command
