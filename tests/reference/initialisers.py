"""The distribution of every tensor of a new model under every initialiser: docs/model_family.md section 9, "Initialisers".

Only mean, deviation and largest magnitude are worked out; drawing is the business of the program under test.
"""

import math
import re

import numpy as np

import parameters
from config import deepnorm_beta, initial_loops

WRAPPED_SCALE = 1.014762601732121  # docs/loom.md 2


def normal(deviation):
    return 0.0, deviation, math.inf


def uniform(bound):
    return 0.0, bound / math.sqrt(3), bound


def wrapped(s):
    """TN(s) of docs/loom.md 2: the scale is there to make the deviation s."""
    return 0.0, s, 3 * WRAPPED_SCALE * s


def fixed(values):
    """A tensor that is not random: mean and deviation of its elements."""
    values = np.asarray(values, np.float64)
    return values.mean(), values.std(), np.abs(values).max()


def common(config, name, shape):
    """What does not depend on the initialiser; None if it does."""
    width = config.hidden_size
    if name.endswith("norm.weight") or name == "hyper.write":
        return fixed(1.0)
    if re.search(r"routers\.\d+\.bias$", name) or name.endswith("balance_bias"):
        return fixed(0.0)
    if name in ("condition.embedding", "condition.out.weight", "reinject.A_log"):
        return fixed(0.0)
    if name == "condition.loop":
        return normal(1.0)
    if name == "reinject.alpha":
        return fixed(config.reinjection.alpha)
    if name == "reinject.dt_bias":
        return fixed(math.log(math.exp(-math.log(0.447)) - 1))
    if name == "reinject.weight":
        if config.reinjection.kind == "decay":
            return fixed(np.eye(width))
        if config.reinjection.order == "he":
            return normal(math.sqrt(2 / (5 * width)))
        return fixed(np.hstack([np.eye(width), np.zeros((width, width))]))
    if name == "hyper.read":
        return fixed(np.eye(shape[1])[np.arange(shape[0]) % shape[1]])
    if name == "hyper.mix":
        return fixed(np.eye(shape[1]))
    return None


def matrix(config, name, shape):
    """Shape of the matrix that counts: of one expert, also of one shared expert."""
    rows, columns = shape[-2:]
    if ".moe.shared." in name:
        inner = config.moe.expert_intermediate
        return (rows, inner) if "down_proj" in name else (inner, columns)
    return rows, columns


def distribution(config, name, shape):
    """(mean, standard deviation, largest possible magnitude)."""
    found = common(config, name, shape)
    if found:
        return found
    kind, width = config.initialisation.name, config.hidden_size
    embedding, head = name == "embed_tokens.weight", name == "lm_head.weight"
    o, down = name.endswith("o_proj.weight"), name.endswith("down_proj.weight")
    rows, columns = matrix(config, name, shape)

    if kind == "loom":
        if re.search(r"routers\.\d+\.weight$", name):
            return normal(1 / math.sqrt(width))
        return wrapped(1 / math.sqrt(columns if down else width))
    if kind == "isodepth":
        if embedding or head:
            return normal(1.0 if embedding else 0.001)
        return uniform(math.sqrt(3 / (4 * width if down else width)))
    if kind == "exponents":
        if embedding:
            return normal(config.initialisation.embedding_std)
        return fixed(0.0) if head or o or down else uniform(config.initialisation.uniform_scale / math.sqrt(width))
    if kind == "huginn":
        depth = config.n_prelude_layers + config.loops * config.n_layers + config.n_coda_layers
        return normal(math.sqrt(2 / (5 * width)) / (math.sqrt(2 * depth) if o or down else 1))
    assert kind == "deepnorm"
    if embedding or head:
        return normal(1 / math.sqrt(width))
    gain = deepnorm_beta(config) if re.search(r"(v|o|up|down)_proj\.weight$", name) else 1
    return normal(gain * math.sqrt(2 / (rows + columns)))


def contents(config):
    """/initial of a case."""
    shapes = parameters.all_shapes(config, initial_loops(config))
    return {"initial/" + name: np.array(distribution(config, name, shape)) for name, shape in shapes.items()}
