"""Self-check: gradients of torch.autograd against central differences, tensor by tensor, along random directions.

    /usr/bin/python3 tests/reference/check_gradients.py

Pieces with everything in the graph are taken from loop 1; a segment starts from a stored state, which is a constant of the
difference as well. `checkpointed` has no code of its own here (training.py), so it equals `full` by construction; the last lines
show that its cases give the same bits when they say `full`.
"""

import copy
import sys

import numpy as np
import torch

import case
import config as configuration
import start_values
from cases import CASES
from moe import Gaps
from training import Piece

WHOLE = ("condition_modulation", "capacity_rank", "random_lanes", "decay_before_coda")
SEGMENT = ("capacity_segmented", "segmented_aux_z")
STEP, TOLERANCE = 1e-6, 1e-6


def inputs_of(name):
    config = configuration.as_attributes(CASES[name]["config"])
    return config, start_values.inputs(config, name, CASES[name]["data_seed"])


def worst_difference(config, inputs, first, last):
    """Largest |difference - gradient| over the tensors, relative to the largest of both or, for tiny ones, absolute in units of
    the piece's largest."""
    params, batch = case.starting_params(inputs, torch.float64), case.batch_of(inputs, 0, torch.float64)
    states = [None] * config.micro_batches

    def piece(first, last, states):
        return Piece(config, params, config.loops, batch, first, last, states, Gaps())

    if first > 1:
        states = piece(1, first - 1, states).states
    found = piece(first, last, states).gradients
    random = np.random.RandomState(0)
    pairs = []
    for name, p in params.items():
        if not p.requires_grad:
            continue
        direction = torch.tensor(random.standard_normal(p.shape))
        objectives = []
        for sign in (1, -1):
            with torch.no_grad():
                p.add_(sign * STEP * direction)
            objectives.append(piece(first, last, states).objective.item())
            with torch.no_grad():
                p.sub_(sign * STEP * direction)
        difference = (objectives[0] - objectives[1]) / (2 * STEP)
        pairs.append((difference, (found[name] * direction).sum().item() if name in found else 0.0))
    largest = max(abs(gradient) for _, gradient in pairs)
    return max(abs(a - b) / max(abs(a), abs(b), 1e-3 * largest) for a, b in pairs), len(pairs)


def main():
    torch.set_num_threads(1)
    failed = 0
    for name in WHOLE + SEGMENT:
        config, inputs = inputs_of(name)
        first, last = (3, 4) if name == "capacity_segmented" else (3, 3) if name in SEGMENT else (1, config.loops)
        worst, count = worst_difference(config, inputs, first, last)
        failed += worst > TOLERANCE
        print(f"{name:32} loops {first}..{last}: {count} tensors, worst relative difference {worst:.1e}")

    for name in CASES:
        config, inputs = inputs_of(name)
        if config.backprop.mode == "checkpointed":
            full = copy.deepcopy(config)
            full.backprop.mode = "full"
            a, b = (case.compute(c, inputs, torch.float64, Gaps()) for c in (config, full))
            same = a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)
            failed += not same
            print(f"{name:32} {'the same as' if same else 'DIFFERS FROM'} full")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
