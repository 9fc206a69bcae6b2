"""The verb `plan`, as the program lists it."""

from refusal_eval.program.verb import Command, Verb


class PlanVerb(Verb):
    """What a study costs, before anything runs."""

    name = "plan"
    does = "show a study's costs, terms and unverified facts before anything runs"

    @staticmethod
    def command() -> Command:
        from refusal_eval.tools.plan.plan_command import command

        return command
