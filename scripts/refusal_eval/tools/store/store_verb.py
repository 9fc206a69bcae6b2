"""The verb `store`, as the program lists it."""

from refusal_eval.program.verb import Command, Verb


class StoreVerb(Verb):
    """What the store holds."""

    name = "store"
    does = "show what the store holds, and remove what no study uses"

    @staticmethod
    def command() -> Command:
        from refusal_eval.tools.store.store_command import command

        return command
