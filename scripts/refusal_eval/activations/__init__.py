"""Activations of models, directions fitted on them, and interventions along these."""
