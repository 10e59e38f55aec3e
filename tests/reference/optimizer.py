"""Clipping and the update of every tensor: docs/model_family.md sections 5 and 9, docs/loom.md 4.3."""

import math
import re

import torch

import muon
import schedule

EMBEDDING, HEAD = "embed_tokens.weight", "lm_head.weight"
OUTSIDE_MATRICES = ("reinject.alpha", "reinject.dt_bias", "reinject.A_log", "condition.embedding", "condition.loop")


def is_router_weight(name):
    return re.search(r"routers\.\d+\.weight$", name) is not None


def is_router_bias(name):
    return re.search(r"routers\.\d+\.bias$", name) is not None


def in_matrices(name):
    """The decay set "matrices"."""
    return not (
        name.endswith("norm.weight") or name.startswith("hyper.") or name in OUTSIDE_MATRICES or is_router_bias(name)
    )


def global_norm(grads):
    return math.sqrt(sum((g * g).sum().item() for g in grads.values()))


def clipped(grads, limit):
    """c of section 5; returns scaled gradients and the norm before."""
    norm = global_norm(grads)
    factor = min(1.0, limit / (norm + 1e-6)) if limit > 0 else 1.0
    return {name: factor * g for name, g in grads.items()}, norm


class Optimizer:
    def __init__(self, config, params):
        self.config = config.optimizer
        self.case = config
        self.state = {}
        for name, p in params.items():
            self.start(name, p)

    def start(self, name, p):
        """State of a tensor that is new: zero moments, step count 0; for muonh the norms of its matrices now."""
        self.state[name] = {"count": 0}
        if self.by_muon(name):
            matrices = self.matrices(name, p)
            self.state[name]["matrices"] = [{} for _ in matrices]
            self.state[name]["sizes"] = [torch.linalg.vector_norm(matrix.detach()) for matrix in matrices]

    def grow(self, before, after):
        """New tensors start; of tensors with more rows the old rows keep their moments, the new rows start at zero."""
        for name, p in after.items():
            if name not in before:
                self.start(name, p)
            elif p.shape != before[name].shape:
                for key, value in self.state[name].items():
                    if key != "count":
                        new_rows = p.new_zeros((len(p) - len(value),) + p.shape[1:])
                        self.state[name][key] = torch.cat([value, new_rows])

    def by_muon(self, name):
        if self.config.name not in ("muon", "muonh") or not in_matrices(name) or name in (EMBEDDING, HEAD):
            return False
        return self.config.muon.routers or not is_router_weight(name)

    def matrices(self, name, tensor):
        """Views of the matrices that Muon treats apart: each routed expert, each shared expert, else the whole tensor."""
        if ".moe.experts." in name:
            return list(tensor)
        if ".moe.shared." in name:
            return torch.chunk(tensor, self.case.moe.n_shared_experts, dim=1 if "down_proj" in name else 0)
        return [tensor]

    def division(self, name):
        """div of section 5."""
        if not name.startswith("core.") or not self.case.tied or is_router_bias(name):
            return 1.0
        if is_router_weight(name) and self.case.moe.router == "per_loop":
            return 1.0
        return self.case.loops**self.config.tied_rate_power

    def rate_factor(self, name):
        if name == EMBEDDING:
            return self.config.embedding_rate
        if name == HEAD:
            return self.config.head_rate
        return 1.0 if in_matrices(name) else self.config.gain_rate

    def decay(self, name):
        return self.config.weight_decay if self.config.decay == "all" or in_matrices(name) else 0.0

    @torch.no_grad()
    def step(self, n, params, grads):
        """Step n for the tensors that have a gradient. Writes into `params`."""
        f = schedule.factor(self.case, n)
        for name, g in grads.items():
            p, state = params[name], self.state[name]
            if self.by_muon(name):
                self.muon_step(n, name, p, g, state, self.config.muon.lr * f / self.division(name))
                continue
            rate = self.config.lr * f / self.division(name) * self.rate_factor(name)
            p.mul_(1 - rate * self.decay(name))
            if self.config.name == "sgd":
                state["m"] = self.config.momentum * state.get("m", torch.zeros_like(g)) + g
                p.sub_(rate * state["m"])
            else:
                self.adamw_step(p, g, state, rate)

    def adamw_step(self, p, g, state, rate):
        beta1, beta2 = self.config.beta1, self.config.beta2
        zero = torch.zeros_like(g)
        state["count"] += 1
        state["M"] = beta1 * state.get("M", zero) + (1 - beta1) * g
        state["Q"] = beta2 * state.get("Q", zero) + (1 - beta2) * g * g
        first = state["M"] / (1 - beta1 ** state["count"])
        second = torch.sqrt(state["Q"]) / math.sqrt(1 - beta2 ** state["count"])
        p.sub_(rate * first / (second + self.config.eps))

    def muon_step(self, n, name, p, g, state, rate):
        settings = self.config.muon
        mu = muon.momentum(settings, n)
        state["m"] = mu * state.get("m", torch.zeros_like(g)) + (1 - mu) * g
        u = (1 - mu) * g + mu * state["m"]
        parts = zip(self.matrices(name, p), self.matrices(name, u), state["matrices"], state["sizes"])
        for matrix, matrix_u, matrix_state, size in parts:
            x = muon.direction(settings, matrix_u, matrix_state)
            if self.config.name == "muonh":
                matrix.copy_(muon.updated_on_sphere(matrix, x, rate, size))
            else:
                matrix.copy_(muon.updated(settings, matrix, x, rate))
