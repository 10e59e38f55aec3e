"""A case's configuration: config.json with the optional keys of docs/model_family.md section 9 filled in.

Sections 6 and 9. Keys become attributes: `config.moe.top_k`. The derived constants of section 2 are here as well, because they
depend on the configuration alone.
"""

import copy
import json
import math
from types import SimpleNamespace

# Section 9: what a key that is left out means. In config.json `muon` stands inside `optimizer`, as in section 6.
OPTIONAL = {
    "micro_batches": 1,
    "ranks": 1,
    "loop_count": {"distribution": "fixed"},
    "conditioning": "off",
    "conditioning_width": 8,
    "residual": {"multiplier": 1.0},
    "head": {"multiplier": 1.0},
    "optimizer": {
        "embedding_rate": 1.0,
        "head_rate": 1.0,
        "gain_rate": 1.0,
        "muon": {
            "orthogonalise": "newton_schulz",
            "row_normalise": False,
            "second_moment": 0.0,
            "cautious": False,
            "momentum_start": None,  # None: the value of `momentum`
            "momentum_steps": 0,
        },
    },
    "initialisation": {"name": "loom", "embedding_std": 0.02, "uniform_scale": 0.044},
}
OPTIONAL_MOE = {"capacity_factor": 0.0, "capacity_scope": "rank", "balance_scope": "layer"}


def merged(base, changes):
    """`base` with `changes` put over it, key by key, section by section."""
    result = copy.deepcopy(base)
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def completed(values):
    """The dictionary of a config.json with every optional key written out, in the order of the file."""
    defaults = copy.deepcopy(OPTIONAL)
    if values["moe"] is not None:
        defaults["moe"] = OPTIONAL_MOE
    result = merged(values, merged(defaults, {key: values[key] for key in defaults if key in values}))
    muon = result["optimizer"]["muon"]
    if muon["momentum_start"] is None:
        muon["momentum_start"] = muon["momentum"]
    return result


def as_attributes(values):
    if isinstance(values, dict):
        # `lambda` is a word of the language.
        return SimpleNamespace(**{("lam" if key == "lambda" else key): as_attributes(value) for key, value in values.items()})
    return values


def read(path):
    with open(path) as file:
        return as_attributes(completed(json.load(file)))


def initial_loops(config):
    """R0 of section 1."""
    return config.growth.initial_loops if config.growth else config.loops


def residual_scale(config):
    """s of the scheme scaled."""
    residual = config.residual
    return residual.lam / (config.loops**residual.loops_power * config.n_layers**residual.layers_power)


def deepnorm_depth(config):
    """N of the scheme deepnorm: visits of layers, or those that receive gradient."""
    visits = config.loops
    if config.backprop.mode == "truncated" and config.residual.count_gradient_visits:
        visits = config.backprop.loops
    return config.n_prelude_layers + visits * config.n_layers + config.n_coda_layers


def deepnorm_alpha(config):
    return (2 * deepnorm_depth(config)) ** config.residual.p


def deepnorm_beta(config):
    return (8 * deepnorm_depth(config)) ** -config.residual.p


def reinjection_gate(config, loop):
    """g_t of the kind convex."""
    if loop == 1:
        return 0.0
    return min(1.0, max(0.0, config.reinjection.lam / (loop * math.sqrt(config.n_layers))))


def segments(config, loops):
    """The segments [a, b] of `loops` loops, both ends included, from 1 (docs/loom.md 4.2)."""
    length = config.backprop.loops
    return [(a, min(a + length - 1, loops)) for a in range(1, loops + 1, length)]
