"""The CPU engine: capture, plan, generate, run."""
