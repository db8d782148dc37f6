"""The learning rate as a function of the step."""

from math import cos, pi

from scumble.recipe import TrainSection

# The paper halves the learning rate once, after two thirds of the steps.
HALVING_POINT = 2 / 3

# Where a cosine ends, as a share of the full rate.
COSINE_FLOOR = 0.01


def learning_rate(train: TrainSection, step: int) -> float:
    """Return the learning rate of one step, counted from 0."""
    if step < train.warmup:
        return train.lr * (step + 1) / train.warmup
    done = step / train.steps
    if train.schedule == "halve":
        return train.lr if done < HALVING_POINT else train.lr / 2
    return train.lr * (COSINE_FLOOR + (1 - COSINE_FLOOR) * (1 + cos(pi * done)) / 2)
