"""The verb `power`, as the program lists it."""

from refusal_eval.program.verb import Command, Verb


class PowerVerb(Verb):
    """The power of a comparison that is planned."""

    name = "power"
    does = "estimate what a comparison of two models can find, from numbers or a pilot"

    @staticmethod
    def command() -> Command:
        from refusal_eval.tools.power.power_command import command

        return command
