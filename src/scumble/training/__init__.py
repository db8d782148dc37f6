"""Training: the step, and around it the loop."""
