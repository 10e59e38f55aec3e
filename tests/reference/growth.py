"""From R0 to R loops: copies of tensors (docs/model_family.md section 5, "Growth", and section 9)."""

import re

import torch

import parameters


def source(name, old_loops):
    """The stored tensor that a new one is copied from: untied core j from core j mod R0, router t from the last router."""
    router = re.sub(r"routers\.\d+\.", f"routers.{old_loops - 1}.", name)
    if router != name:
        return router
    return re.sub(r"^core\.(\d+)\.", lambda match: f"core.{int(match.group(1)) % old_loops}.", name)


def untied_source(name, old_loops):
    return re.sub(r"^core\.(\d+)\.", lambda match: f"core.{int(match.group(1)) % old_loops}.", name)


def grown(config, params, old_loops, new_loops):
    """Tensors of a model of `new_loops` loops; rows of per-loop tensors are copies of the last row."""
    result = {}
    for name, shape in parameters.all_shapes(config, new_loops).items():
        if name not in params:
            copy = params[source(name, old_loops) if config.tied else untied_source(name, old_loops)]
            result[name] = copy.detach().clone()
        elif tuple(params[name].shape) == tuple(shape):
            result[name] = params[name]
            continue
        else:
            old = params[name].detach()
            result[name] = torch.cat([old, old[-1:].expand((shape[0] - len(old),) + tuple(shape[1:]))]).clone()
        result[name].requires_grad_(parameters.is_trained(name))
    return result
