"""How well judges agree with gold: its measures, the weights of gold, and the order of judges."""
