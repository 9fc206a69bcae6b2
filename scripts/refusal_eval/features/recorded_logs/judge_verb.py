"""The verb `judge`, as the program lists it."""

from refusal_eval.program.verb import Command, Verb


class JudgeVerb(Verb):
    """Judges answers that other tools drew."""

    name = "judge"
    does = "judge answers that you have: logs of inspect or lm-evaluation-harness, tables"

    @staticmethod
    def command() -> Command:
        from refusal_eval.features.recorded_logs.judge_command import command

        return command
