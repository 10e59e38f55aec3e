"""Losses and their sum: docs/model_family.md section 3, with the weights of several micro-steps of section 9."""

from dataclasses import dataclass

import torch


@dataclass
class Terms:
    """CE, Z, A and Q of a piece, before their coefficients. Terms of micro-steps add up."""

    cross_entropy: torch.Tensor = 0.0
    logit_z: torch.Tensor = 0.0
    aux: torch.Tensor = 0.0
    router_z: torch.Tensor = 0.0

    def __add__(self, other):
        return Terms(*(a + b for a, b in zip(self.values(), other.values())))

    def values(self):
        return self.cross_entropy, self.logit_z, self.aux, self.router_z

    def objective(self, config):
        """Terms without weight stay out of the graph, so that they give no gradient, not even a zero one."""
        total = self.cross_entropy
        if config.head.logit_z_loss > 0:
            total = total + config.head.logit_z_loss * self.logit_z
        if config.moe is not None and config.moe.aux_loss > 0:
            total = total + config.moe.aux_loss * self.aux
        if config.moe is not None and config.moe.router_z_loss > 0:
            total = total + config.moe.router_z_loss * self.router_z
        return total


def token_sums(logits, targets, counted):
    """Sums over the targets that count of the cross-entropy and of logsumexp(logits)^2."""
    normaliser = torch.logsumexp(logits, dim=-1)
    picked = torch.gather(logits, -1, targets.unsqueeze(-1)).squeeze(-1)
    counted = counted.to(logits.dtype)
    return ((normaliser - picked) * counted).sum(), (normaliser**2 * counted).sum()


def balance(config, visits):
    """A over the visits of one micro-step. The slots of an expert are its choices, before a capacity drops any."""
    moe = config.moe

    def shares(visit):
        slots = visit.choices.to(visit.score.dtype) / (len(visit.score) * moe.top_k)
        score = visit.score if moe.score == "softmax" else visit.score / visit.score.sum(dim=1, keepdim=True)
        return slots, score.mean(dim=0)

    groups = [[visit] for visit in visits]
    if moe.aux_scope == "summed":
        layers = dict.fromkeys(visit.layer for visit in visits)
        groups = [[visit for visit in visits if visit.layer == layer] for layer in layers]
    total = 0.0
    for group in groups:
        slots, scores = zip(*(shares(visit) for visit in group))
        total = total + moe.n_routed_experts * (sum(slots) / len(group) * sum(scores) / len(group)).sum()
    return total


def router_z(visits):
    """Q over the visits of one micro-step."""
    return sum((torch.logsumexp(visit.logits, dim=1) ** 2).mean() for visit in visits)
