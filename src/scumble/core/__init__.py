"""The mathematics of the paper: pure functions of tensors and numbers."""
