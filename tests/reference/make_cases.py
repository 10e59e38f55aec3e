"""Writes the cases of cases.py: a folder each with config.json and case.h5 (docs/model_family.md sections 6, 7 and 9).

    /usr/bin/python3 tests/reference/make_cases.py OUT_DIR [CASE...]
"""

import json
import os
import sys
import time

import numpy as np
import torch

import case
import case_file
import compare
import config as configuration
import initialisers
import schedule
import start_values
from cases import CASES
from moe import Gaps

SMALLEST_GAP = 1e-5


def derived(config):
    """Constants, as a help."""
    values = {}
    if config.residual.scheme == "scaled":
        values["residual_scale"] = configuration.residual_scale(config)
    if config.residual.scheme == "deepnorm":
        values["deepnorm_depth"] = configuration.deepnorm_depth(config)
        values["deepnorm_alpha"] = configuration.deepnorm_alpha(config)
    if config.reinjection.kind == "convex":
        values["reinjection_gate"] = [configuration.reinjection_gate(config, t) for t in range(1, config.loops + 1)]
    if config.backprop.mode == "segmented":
        values["segments"] = configuration.segments(config, config.loops)
    return values


def noise(config, inputs, contents):
    """Worst error / tolerance of a float32 run, and where."""
    single = case.compute(config, inputs, torch.float32, Gaps())
    name, ratio = max(compare.ratios(single, {**contents, **inputs}).items(), key=lambda item: item[1])
    return {"worst_of_tolerance": float(f"{ratio:.2g}"), "at": name}


def make(name, with_noise=True):
    """Dictionary of config.json and contents of case.h5."""
    values, data_seed = CASES[name]["config"], CASES[name]["data_seed"]
    config = configuration.as_attributes(values)
    values["schedule"]["warmup_steps"] = schedule.warmup_steps(config.schedule)
    values["schedule"]["decay_steps"] = schedule.decay_steps(config.schedule)
    inputs, gaps = start_values.inputs(config, name, data_seed), Gaps()
    contents = case.compute(config, inputs, torch.float64, gaps)
    smallest = min(gaps.selection, gaps.capacity)
    finite = lambda value: value if np.isfinite(value) else None
    facts = {
        "min_selection_gap": finite(gaps.selection),
        "min_capacity_gap": finite(gaps.capacity),
        "smallest_gap": finite(smallest),
        "dropped_slots": gaps.dropped,
    }
    if with_noise:
        facts["noise_float32"] = noise(config, inputs, contents)
    values = {**values, "derived": derived(config), "facts": facts}
    contents = {**case.as_stored(contents), **inputs}
    if CASES[name]["initial"]:
        contents.update(initialisers.contents(config))
    return values, contents, smallest


def main(out, names):
    torch.set_num_threads(1)
    started = time.time()
    refused = []
    for name in names or CASES:
        values, contents, smallest = make(name)
        if smallest < SMALLEST_GAP:
            refused.append(name)
        folder = os.path.join(out, name)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(values, file, indent=1)
            file.write("\n")
        case_file.write(os.path.join(folder, "case.h5"), contents)
        facts = values["facts"]
        print(f"{name:40} gap {smallest:8.1e}  dropped {facts['dropped_slots']:4}  float32 at "
              f"{facts['noise_float32']['worst_of_tolerance']:8.2g} of {facts['noise_float32']['at']}")
    print(f"{len(names or CASES)} cases in {time.time() - started:.0f} s")
    if refused:
        print("a choice of experts is too close, take another data_seed:", *refused)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
