"""The factor f(n) of the learning rate: docs/model_family.md section 5, docs/loom.md 4.4."""

import math
from fractions import Fraction


def share(schedule, ratio):
    """Of all steps, for the ratio as a decimal; round() takes its halves to even."""
    return schedule.total_steps * Fraction(repr(ratio))


def warmup_steps(schedule):
    return max(1, round(share(schedule, schedule.warmup_ratio)))


def decay_steps(schedule):
    return max(0, round(share(schedule, schedule.decay_ratio)))


def factor(config, n):
    """f(n), n from 1, the re-warming after growth included."""
    growth = config.growth
    rewarm = 1.0
    if growth and growth.rewarm_steps > 0 and n >= growth.at_step:
        rewarm = min(1.0, (n - growth.at_step) / growth.rewarm_steps)
    return rewarm * plain_factor(config.schedule, n)


def plain_factor(schedule, n):
    total, warmup, low = schedule.total_steps, warmup_steps(schedule), schedule.min_ratio
    if n < warmup:
        return n / warmup
    if schedule.name == "wsd":
        decay = decay_steps(schedule)
        start = max(total - decay, warmup)
        if decay == 0 or n < start:
            return 1.0
        return 1 + (low - 1) * min(1.0, max(0.0, (n - start) / max(total - start, 1)))
    q = min(1.0, (n - warmup) / max(total - warmup, 1))
    if schedule.name == "cosine":
        return low + (1 - low) * (1 + math.cos(math.pi * q)) / 2
    assert schedule.name == "linear"
    return low + (1 - low) * (1 - q)
