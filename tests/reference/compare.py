"""How two cases are compared: docs/model_family.md section 8."""

import numpy as np


def tolerance(name):
    """0: must be equal."""
    if name.startswith("forward/"):
        return 0.0 if name.endswith(("load", "topk_index")) else 1e-5
    if name.endswith("@loss"):
        return 1e-5
    if name.startswith("eval/"):
        return 0.0 if name == "eval/loops" else 1e-5
    if name.startswith(("grads", "params_")) or name == "train/grad_norm":
        return 1e-4
    if name == "train/loops" or name.startswith("train/load/"):
        return 0.0
    if name in ("train/lr", "train/lr_muon") or name.startswith("train/balance_bias/"):
        return 1e-6
    assert name in ("train/loss", "train/cross_entropy", "train/aux", "train/router_z"), name
    return 1e-5


UPDATE_TOLERANCE = 1e-3


def distance(a, b):
    """|a - b| / |b|, absolute where b is 0; NaN must meet NaN."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.shape != b.shape or not np.array_equal(np.isnan(a), np.isnan(b)):
        return np.inf
    a, b = np.nan_to_num(a), np.nan_to_num(b)
    size = np.linalg.norm(b)
    return np.linalg.norm(a - b) / (size if size > 0 else 1.0)


def by_choice(contents, name):
    """Expert choices as sets, and the weights in the same order."""
    order = np.argsort(contents["forward/topk_index"], axis=-1)
    return np.take_along_axis(np.asarray(contents[name]), order, axis=-1)


def ratios(ours, theirs):
    """name -> error / tolerance over everything in `theirs` that is not an input; inf where something is missing or unequal."""
    names = [n for n in {**ours, **theirs} if not n.startswith(("batches/", "params_init/", "initial/")) and n != "train/loops"]
    result = {}
    for name in names:
        if name not in ours or name not in theirs:
            result[name] = np.inf
            continue
        a, b = ours[name], theirs[name]
        if name in ("forward/topk_index", "forward/topk_weight"):
            a, b = by_choice(ours, name), by_choice(theirs, name)
        allowed = tolerance(name)
        if allowed == 0:
            result[name] = 0.0 if np.array_equal(a, b) else np.inf
            continue
        result[name] = distance(a, b) / allowed
        start = "params_init/" + name.split("/")[-1]
        if name.startswith("params_") and start in theirs and theirs[start].shape == np.shape(b):
            update = np.asarray(b, np.float64) - theirs[start]
            if np.any(update != 0):
                change = np.asarray(a, np.float64) - theirs[start]
                result[name + " (update)"] = distance(change, update) / UPDATE_TOLERANCE
    return result
