"""Inputs of a new case: seeded random batches, loop counts and start values.

Start values are random only to make every mix-up show: gains differ from 1, per-loop tensors differ from each other, what a training
run would start at zero (`condition.out.weight`, balance biases) is not zero. They are no initialiser (initialisers.py is).
"""

import re
import zlib

import numpy as np

import parameters
from config import deepnorm_beta, initial_loops


def draws(case_name, purpose, seed=0):
    """RandomState: its streams never change."""
    return np.random.RandomState(zlib.crc32(f"{case_name} {purpose} {seed}".encode()))


def start_value(config, name, shape, random):
    normal = random.standard_normal(shape)
    last = name.split(".")[-1]
    if name == "embed_tokens.weight":
        return normal / np.sqrt(config.hidden_size) if config.embedding.scale == "sqrt_d" else normal
    if name.endswith("norm.weight"):
        return 1 + 0.3 * normal
    if last == "balance_bias":
        return 0.03 * normal
    if re.search(r"routers\.\d+\.bias$", name):
        return 0.3 * normal
    if name == "reinject.alpha":
        return np.full(shape, config.reinjection.alpha)
    if last in ("dt_bias", "A_log"):
        return 0.4 * normal
    if name.startswith("hyper."):
        loops, lanes = shape[0], shape[1]
        fixed = {
            "read": np.eye(lanes)[np.arange(loops) % lanes],
            "mix": np.broadcast_to(np.eye(lanes), (loops, lanes, lanes)),
            "write": np.ones((loops, lanes)),
        }
        return fixed[last][:loops].reshape(shape) + 0.2 * normal
    if name == "condition.embedding" or name == "condition.loop":
        return 0.5 * normal
    if name == "condition.out.weight":
        return 0.4 * normal / np.sqrt(shape[1])
    scale = 1 / np.sqrt(shape[-1])
    if config.residual.scheme == "deepnorm" and re.search(r"\.(v|o|up|down)_proj\.weight$", name):
        scale *= deepnorm_beta(config)
    return scale * normal


def batches(config, random):
    shape = (config.steps, config.batch_size, config.seq_len)
    found = {"batches/tokens": random.randint(0, config.vocab_size, shape[:2] + (shape[2] + 1,)).astype(np.int32)}
    if config.ignored:
        # Unevenly over the rows: most targets of the first row, few of the last one.
        likely = np.linspace(0.8, 0.05, config.batch_size)[:, None]
        found["batches/ignored"] = (random.random_sample(shape) < likely).astype(np.int32)
    if config.documents:
        found["batches/document"] = (random.random_sample(shape) < 0.25).astype(np.int32)
    if config.initial_state == "noise":
        noise = np.sqrt(0.4) * random.standard_normal(shape + (config.hidden_size,))
        found["batches/noise"] = noise.astype(np.float32)
    return found


def loop_counts(config, random):
    """Loops of every step. The draws reach from 1 to beyond `loops`, so that per-loop tensors run out."""
    steps, distribution = config.steps, config.loop_count.distribution
    if distribution == "uniform":
        counts = random.randint(1, config.loops + 3, steps)
    elif distribution == "poisson":
        counts = np.maximum(1, random.poisson(config.loops, steps))
    else:
        grown = [config.growth is None or n >= config.growth.at_step for n in range(1, steps + 1)]
        counts = [config.loops if full else initial_loops(config) for full in grown]
    return np.asarray(counts).astype(np.int32)


def inputs(config, name, data_seed):
    found = batches(config, draws(name, "data", data_seed))
    found["train/loops"] = loop_counts(config, draws(name, "loops"))
    random = draws(name, "start values")
    for tensor, shape in parameters.all_shapes(config, initial_loops(config)).items():
        found["params_init/" + tensor] = start_value(config, tensor, shape, random).astype(np.float32)
    return found
