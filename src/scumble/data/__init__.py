"""Pictures as tensors, low resolution made from high, and the photos a run trains on."""
