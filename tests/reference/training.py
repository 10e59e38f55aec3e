"""Passes with gradient and whole training steps: docs/model_family.md sections 4, 5 and 9, docs/loom.md 4.2 and 4.5.

A batch is split over the ranks, in order, and the rows of a rank into micro-batches, in order. Micro-step i is the i-th
micro-batch of every rank. A *piece* is what is differentiated at once: a segment, or everything.
`checkpointed` is the same function as `full` here: it says what is recomputed, not what is computed.
"""

import math

import torch

import growth
import optimizer
import schedule
from config import initial_loops, segments
from model import Model
from objective import Terms, balance, router_z, token_sums


def micro_step_rows(config):
    """Rows of the batch that each micro-step takes, rank after rank."""
    per_rank = config.batch_size // config.ranks
    size = per_rank // config.micro_batches
    assert size * config.micro_batches * config.ranks == config.batch_size
    return [
        [rank * per_rank + i * size + row for rank in range(config.ranks) for row in range(size)]
        for i in range(config.micro_batches)
    ]


def select(batch, rows):
    return {key: None if value is None else value[rows] for key, value in batch.items()}


def capacity_groups(config):
    """Runs of tokens of a micro-step that count their capacity apart; 0 = dropless."""
    if config.moe is None or config.moe.capacity_factor == 0:
        return 0
    return config.ranks if config.moe.capacity_scope == "rank" else 1


def run_piece(model, state, first, last, counted, share, loop_losses=None):
    """Loops first..last of one micro-step; `state` is None at loop 1. `counted`: targets that count in the global batch; `share`: of
    the micro-step in its tokens. `loop_losses`, a list of sums per loop, is filled if given. Returns Terms and the last State."""
    config, batch = model.config, model.batch
    e = model.prelude()
    state = model.initial_state(e) if state is None else state
    weights = config.loss.loop_weights or [0.0] * (last - 1) + [1.0]
    constant = last - config.backprop.loops if config.backprop.mode == "truncated" else 0
    head = lambda: token_sums(model.logits(state, e), batch["targets"], batch["counted"])
    terms = Terms()
    for t in range(first, last + 1):
        with torch.set_grad_enabled(t > constant and torch.is_grad_enabled()):
            state = model.loop(state, e, t)
        if loop_losses is not None:
            loop_losses[t - 1] += model.without_record(head)[0].item()
        if weights[t - 1] != 0:
            cross_entropy, squares = head()
            terms.cross_entropy = terms.cross_entropy + weights[t - 1] * cross_entropy / counted
            terms.logit_z = terms.logit_z + weights[t - 1] * squares / counted
    differentiated = [visit for visit in model.visits if visit.with_gradient]
    if differentiated:
        terms.aux = share * balance(config, differentiated)
        terms.router_z = share * router_z(differentiated)
    return terms, state


def gradients(objective, params):
    """name -> gradient; a tensor that the piece does not use is absent."""
    trained = {name: p for name, p in params.items() if p.requires_grad}
    found = torch.autograd.grad(objective, list(trained.values()), allow_unused=True)
    return {name: g for name, g in zip(trained, found) if g is not None}


class Piece:
    """One piece of one batch over all its micro-steps."""

    def __init__(self, config, params, stored_loops, batch, first, last, states, gaps, capture=False):
        self.terms, self.states, self.models = Terms(), [], []
        self.loop_losses = [0.0] * last if capture else None
        counted = batch["counted"].sum().item()
        for i, rows in enumerate(micro_step_rows(config)):
            model = Model(config, params, stored_loops, select(batch, rows), capacity_groups(config), gaps)
            terms, state = run_piece(
                model, states[i], first, last, counted, len(rows) / config.batch_size, self.loop_losses
            )
            self.terms = self.terms + terms
            self.states.append(state.detached())
            self.models.append(model)
        if capture:
            self.loop_losses = [value / counted for value in self.loop_losses]
        self.objective = self.terms.objective(config)
        self.gradients = gradients(self.objective, params)

    def visits(self):
        return [visit for model in self.models for visit in model.visits]


def evaluate(config, params, stored_loops, batch, loops, gaps):
    """CE of one whole batch with any loop count, dropless."""
    model = Model(config, params, stored_loops, batch, groups=0, gaps=gaps)
    with torch.no_grad():
        e = model.prelude()
        state = model.initial_state(e)
        for t in range(1, loops + 1):
            state = model.loop(state, e, t)
        total, _ = token_sums(model.logits(state, e), batch["targets"], batch["counted"])
    return total.item() / batch["counted"].sum().item()


class Training:
    def __init__(self, config, params, gaps):
        self.config, self.params, self.gaps = config, params, gaps
        self.stored_loops = initial_loops(config)
        self.optimizer = optimizer.Optimizer(config, self.trained())

    def trained(self):
        return {name: p for name, p in self.params.items() if p.requires_grad}

    def step(self, n, batch, loops):
        """Step n (from 1) with `loops` loops. Returns what /train stores of it."""
        config = self.config
        if config.growth and n == config.growth.at_step:
            before = self.trained()
            self.params = growth.grown(config, self.params, self.stored_loops, config.loops)
            self.stored_loops = config.loops
            self.optimizer.grow(before, self.trained())

        segmented = config.backprop.mode == "segmented"
        pieces, norms, loads = [], [], self.no_loads()
        states = [None] * config.micro_batches
        summed = {}
        for first, last in segments(config, loops) if segmented else [(1, loops)]:
            piece = Piece(config, self.params, self.stored_loops, batch, first, last, states, self.gaps)
            states = piece.states
            pieces.append([piece.objective.item()] + [float(value) for value in piece.terms.values()])
            self.count(loads, piece.visits())
            if segmented and not config.backprop.step_per_segment:
                for name, g in piece.gradients.items():
                    summed[name] = summed[name] + g if name in summed else g
            else:
                norms.append(self.update(n, piece.gradients))
        if summed:
            norms.append(self.update(n, summed))
        self.update_balance(loads)
        return {
            "pieces": pieces,
            "norms": norms,
            "load": loads,
            "balance_bias": {layer: self.params[layer + ".moe.balance_bias"].clone() for layer in loads},
        }

    def update(self, n, grads):
        grads, norm = optimizer.clipped(grads, self.config.optimizer.clip_grad_norm)
        self.optimizer.step(n, self.params, grads)
        return norm

    def no_loads(self):
        """Zeros for every stored layer, also for those that the step will not visit."""
        suffix = ".moe.balance_bias"
        return {
            name[: -len(suffix)]: torch.zeros(bias.shape, dtype=torch.int64)
            for name, bias in self.params.items()
            if name.endswith(suffix)
        }

    def count(self, loads, visits):
        """Adds kept slots per stored layer; with the scope layer_loop per row of its balance bias."""
        for visit in visits:
            load = loads[visit.layer]
            row = load if load.dim() == 1 else load[min(visit.loop, len(load)) - 1]
            row += visit.load

    def update_balance(self, loads):
        """docs/loom.md 4.5, once per step."""
        rate = self.config.moe.balance_bias_rate if self.config.moe else 0.0
        if rate == 0:
            return
        for layer, load in loads.items():
            load = load.to(torch.float64)
            bias = self.params[layer + ".moe.balance_bias"]
            bias += rate * torch.sign(load.mean(dim=-1, keepdim=True) - load).to(bias.dtype)


def rates(config, n):
    """lr * f and muon.lr * f of step n."""
    f = schedule.factor(config, n)
    return config.optimizer.lr * f, config.optimizer.muon.lr * f


def nan_padded(rows):
    """A table whose short rows are filled with NaN: segments that a step does not have."""
    width = max(len(row) for row in rows)
    return [row + [math.nan] * (width - len(row)) for row in rows]
