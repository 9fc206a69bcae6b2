"""How well judges agree with people: its measures, the weights of gold, and the order of judges."""
