"""Everything that docs/model_family.md section 7 stores of a case, computed from its inputs.

Inputs are the entries batches/*, params_init/* and train/loops of a case's contents (case_file.py). Values are computed in `dtype`
and returned in float64; `as_stored` rounds them to the types of the file.
"""

import numpy as np
import torch

from config import initial_loops, segments
from parameters import is_trained
from training import Piece, Training, evaluate, micro_step_rows, nan_padded, rates

PER_VISIT = ("attn_branch", "ffn_branch", "layer_state", "looping_residual")
FLOAT64 = ("train/lr", "train/lr_muon")


def starting_params(inputs, dtype):
    start = "params_init/"
    return {
        name[len(start) :]: torch.tensor(value, dtype=dtype).requires_grad_(is_trained(name))
        for name, value in inputs.items()
        if name.startswith(start)
    }


def batch_of(inputs, step, dtype):
    def optional(name):
        return torch.tensor(inputs["batches/" + name][step]) if "batches/" + name in inputs else None

    tokens = torch.tensor(inputs["batches/tokens"][step], dtype=torch.int64)
    ignored, document, noise = optional("ignored"), optional("document"), optional("noise")
    return {
        "tokens": tokens[:, :-1],
        "targets": tokens[:, 1:],
        "counted": torch.ones_like(tokens[:, 1:], dtype=torch.bool) if ignored is None else ignored == 0,
        "document": None if document is None else document.to(torch.int64),
        "noise": None if noise is None else noise.to(dtype),
    }


def array(value):
    """float64 or int64 numpy array of a tensor, a number or a nested list."""
    value = value.detach().numpy() if torch.is_tensor(value) else np.asarray(value)
    return value.astype(np.int64 if value.dtype.kind in "iub" else np.float64)


def rows_of(config, per_micro_step):
    """One [B,...] tensor, rows in the order of the batch, from one tensor per micro-step."""
    order = np.argsort(np.concatenate(micro_step_rows(config)))
    return torch.cat(per_micro_step)[order]


def forward(config, piece):
    """/forward without its prefix, from a piece over all loops."""
    loops, layers, length = initial_loops(config), config.n_layers, config.seq_len
    kept = {
        name: [rows_of(config, values) for values in zip(*(model.kept[name] for model in piece.models))]
        for name in piece.models[0].kept
    }
    found = {name: kept[name][-1] for name in ("embed", "prelude_state", "coda_input", "final_state", "logits")}
    found.update({name: torch.stack(kept[name]) for name in ("loop_input", "loop_state")})
    for name in PER_VISIT:
        if name in kept:
            found[name] = torch.stack(kept[name]).unflatten(0, (loops, layers))

    terms = piece.terms
    found.update(loss=piece.objective, cross_entropy=terms.cross_entropy, loop_loss=piece.loop_losses)
    if config.head.logit_z_loss > 0:
        found["logit_z"] = terms.logit_z
    if config.moe is not None:
        found.update(aux=terms.aux, router_z=terms.router_z)
        found.update(routing(config, piece, loops, layers, length))
    return {name: array(value) for name, value in found.items()}


def routing(config, piece, loops, layers, length):
    """Choices of the core's layers, [L,R0,...]."""
    core = [[visit for visit in model.visits if visit.loop > 0] for model in piece.models]
    if not core[0]:
        return {}

    def by_layer(values):
        return torch.stack(values).unflatten(0, (loops, layers)).transpose(0, 1)

    def tokens(field):
        per_visit = zip(*([getattr(visit, field) for visit in visits] for visits in core))
        return by_layer([
            rows_of(config, [value.unflatten(0, (-1, length)) for value in values]).flatten(0, 1) for values in per_visit
        ])

    return {
        "router_score": tokens("score"),
        "topk_index": tokens("chosen"),
        "topk_weight": tokens("weight"),
        "load": by_layer([sum(visit.load for visit in visits) for visits in zip(*core)]),
    }


def first_batch(config, inputs, dtype, gaps):
    """/forward, /grads, /grads_segment0 and /eval: start values, R0 loops."""
    params, batch = starting_params(inputs, dtype), batch_of(inputs, 0, dtype)
    loops = initial_loops(config)
    empty = [None] * config.micro_batches
    contents = {}

    piece = Piece(config, params, loops, batch, 1, loops, empty, gaps, capture=True)
    contents.update({"forward/" + name: value for name, value in forward(config, piece).items()})
    contents.update(named("grads", piece))
    if config.backprop.mode == "segmented":
        first, last = segments(config, loops)[0]
        contents.update(named("grads_segment0", Piece(config, params, loops, batch, first, last, empty, gaps)))
    counts = [loops + 1, loops + 2]
    contents["eval/loops"] = array(counts)
    contents["eval/loss"] = array([evaluate(config, params, loops, batch, count, gaps) for count in counts])
    return contents


def named(group, piece):
    entries = {f"{group}/{name}": array(g) for name, g in piece.gradients.items()}
    entries[group + "@loss"] = array(piece.objective)
    return entries


def snapshot(group, params):
    return {f"{group}/{name}": array(p).copy() for name, p in params.items()}


def train(config, inputs, dtype, gaps):
    """/train and the trained tensors."""
    training = Training(config, starting_params(inputs, dtype), gaps)
    counts = [int(count) for count in inputs["train/loops"]]
    contents, steps = {}, []
    for n, loops in enumerate(counts, start=1):
        steps.append(training.step(n, batch_of(inputs, n - 1, dtype), loops))
        if n == 1:
            contents.update(snapshot("params_step1", training.params))
    contents.update(snapshot("params_final", training.params))

    fields = ("loss", "cross_entropy", "logit_z", "aux", "router_z")
    pieces = {name: array(nan_padded([[p[i] for p in step["pieces"]] for step in steps])) for i, name in enumerate(fields)}
    for name in ("loss", "cross_entropy") + (("aux", "router_z") if config.moe else ()):
        contents["train/" + name] = pieces[name]
    contents["train/grad_norm"] = array(nan_padded([step["norms"] for step in steps]))
    by_adam, by_muon = zip(*(rates(config, n) for n in range(1, len(counts) + 1)))
    contents["train/lr"] = array(by_adam)
    if config.optimizer.name in ("muon", "muonh"):
        contents["train/lr_muon"] = array(by_muon)
    for kind in ("load", "balance_bias"):
        for layer in steps[-1][kind]:
            contents[f"train/{kind}/{layer}"] = padded_history([step[kind].get(layer) for step in steps])
    return contents


def padded_history(values):
    """[steps,...]; rows and layers that growth has not made yet are 0."""
    last = array(values[-1])
    history = np.zeros((len(values),) + last.shape, last.dtype)
    for step, value in enumerate(values):
        if value is not None:
            history[step][tuple(slice(0, size) for size in value.shape)] = array(value)
    return history


def compute(config, inputs, dtype, gaps):
    """All contents that are not inputs."""
    return {**first_batch(config, inputs, dtype, gaps), **train(config, inputs, dtype, gaps)}


def as_stored(contents):
    """The types of the file: float32 and int32, rates in float64."""
    stored = {}
    for name, value in contents.items():
        if name not in FLOAT64 and not name.startswith("initial/"):
            value = value.astype(np.int32 if value.dtype.kind == "i" else np.float32)
        stored[name] = value
    return stored
