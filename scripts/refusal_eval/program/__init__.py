"""What the verbs of the program `refusal-eval` share."""
