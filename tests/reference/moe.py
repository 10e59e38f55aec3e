"""One visit of one MoE layer: scores, choice, capacity, experts. docs/model_family.md sections 2, 3 and 9, docs/loom.md 3.6."""

import math
from dataclasses import dataclass

import torch

from layers import silu


@dataclass
class Visit:
    """What one visit leaves for the objective (section 3), the balance bias (section 5) and the case file (section 7)."""

    layer: str  # prefix of the stored layer, without the last point
    loop: int  # t from 1; 0 in prelude and coda
    with_gradient: bool
    logits: torch.Tensor  # [N,E], bias of the loop included
    score: torch.Tensor  # [N,E]
    chosen: torch.Tensor  # [N,k], best first
    weight: torch.Tensor  # [N,k], 0: dropped
    choices: torch.Tensor  # [E], slots before the capacity
    load: torch.Tensor  # [E], slots that are kept


class Gaps:
    """The smallest gaps of a case: between the k-th and the next selection score, and between the last slot that an expert keeps
    and the first that it drops. A choice on a smaller gap than float32 resolves could fall differently elsewhere."""

    def __init__(self):
        self.selection = math.inf
        self.capacity = math.inf
        self.dropped = 0


def choose(score, balance_bias, k, gaps):
    """Top k of score + balance bias, ties to the lower index: the sort is stable."""
    biased = (score + balance_bias).detach()
    ordered, index = torch.sort(biased, dim=1, descending=True, stable=True)
    if k < biased.shape[1]:
        gaps.selection = min(gaps.selection, (ordered[:, k - 1] - ordered[:, k]).min().item())
    return index[:, :k]


def kept_slots(chosen, weight, experts, capacity, gaps):
    """[N,k]: whether a slot stays when every expert keeps its `capacity` slots of largest weight; equal weights in token order."""
    keep = torch.ones_like(chosen, dtype=torch.bool)
    for expert in range(experts):
        token, slot = torch.nonzero(chosen == expert, as_tuple=True)
        if len(token) <= capacity:
            continue
        ordered, index = torch.sort(weight[token, slot].detach(), descending=True, stable=True)
        gaps.capacity = min(gaps.capacity, (ordered[capacity - 1] - ordered[capacity]).item())
        gaps.dropped += len(token) - capacity
        keep[token[index[capacity:]], slot[index[capacity:]]] = False
    return keep


def limit(moe, chosen, weight, groups, gaps):
    """Capacity (docs/loom.md 3.6 item 4) in each of `groups` equal runs of tokens. Returns weights and kept slots per expert."""
    weights, load = [], torch.zeros(moe.n_routed_experts, dtype=torch.int64)
    for group_chosen, w in zip(torch.chunk(chosen, groups), torch.chunk(weight, groups)):
        counts = torch.bincount(group_chosen.flatten(), minlength=moe.n_routed_experts)
        if moe.capacity_factor > 0:
            capacity = max(1, math.floor(moe.capacity_factor * len(w) * moe.top_k / moe.n_routed_experts))
            if counts.max() > capacity:
                keep = kept_slots(group_chosen, w, moe.n_routed_experts, capacity, gaps)
                w = torch.where(keep, w, torch.zeros_like(w))
                if moe.renormalise:
                    w = w / torch.clamp(w.sum(dim=1, keepdim=True), min=1e-9)
                counts = torch.clamp(counts, max=capacity)
        weights.append(w)
        load += counts
    return torch.cat(weights), load


def swiglu(h, gate, up, down):
    return (silu(h @ gate.transpose(-1, -2)) * (h @ up.transpose(-1, -2))) @ down.transpose(-1, -2)


def feed_forward(config, weight, h, router, router_bias, balance_bias, groups, gaps):
    """h [N,D] normalised; `groups`: how many equal runs of tokens count their capacity apart, 0 = no capacity.
    Returns the output [N,D] in front of the norm `moe_out` and the fields of a Visit that this layer knows."""
    moe = config.moe
    logits = h @ router.T
    if router_bias is not None:
        logits = logits + router_bias
    score = torch.sigmoid(logits) if moe.score == "sigmoid" else torch.softmax(logits, dim=1)
    chosen = choose(score, balance_bias, moe.top_k, gaps)
    w = torch.gather(score, 1, chosen)
    if moe.renormalise:
        w = w / torch.clamp(w.sum(dim=1, keepdim=True), min=1e-9)
    choices = torch.bincount(chosen.flatten(), minlength=moe.n_routed_experts)
    load = choices
    if groups > 0:
        w, load = limit(moe, chosen, w, groups, gaps)

    # Every expert sees every token; what it was not chosen for counts 0 times.
    mixing = torch.zeros_like(score).scatter(1, chosen, w)
    outputs = swiglu(h, *(weight(f"moe.experts.{kind}_proj.weight") for kind in ("gate", "up", "down")))
    y = torch.einsum("ne,end->nd", mixing, outputs)
    if moe.n_shared_experts > 0:
        # The stacked matrices give the sum of the shared experts: down is stacked by columns.
        y = y + swiglu(h, *(weight(f"moe.shared.{kind}_proj.weight") for kind in ("gate", "up", "down")))
    return y, dict(logits=logits, score=score, chosen=chosen, weight=w, choices=choices, load=load)
