"""The forward pass over the rows of one micro-step: docs/model_family.md sections 2 and 9.

`Model` holds weights and batch; the loops pass a `State` on, which training.py may detach between two loops. Everything that
section 7 stores of a forward pass goes through `keep`.
"""

import math
from dataclasses import dataclass, replace

import torch

import config as configuration
import moe
from layers import attention, dense, document_of, gelu, norm, rms


@dataclass
class State:
    """What enters a loop. The looping residual's global pair (docs/loom.md 3.5) is empty before the first block."""

    h: torch.Tensor  # [B,S,D]; with hyper-connections what the coda would read: the sum of the lanes
    lanes: torch.Tensor = None  # [H,B,S,D]
    numerator: torch.Tensor = None
    denominator: float = 0.0

    def detached(self):
        cut = lambda x: None if x is None else x.detach()
        return replace(self, h=cut(self.h), lanes=cut(self.lanes), numerator=cut(self.numerator))


class LoopingResidual:
    """docs/loom.md 3.5: the local pair lives for one loop, the global one in the State."""

    def __init__(self, settings, state):
        self.settings = settings
        self.state = state
        self.local_numerator, self.local_denominator = None, 0.0

    @staticmethod
    def average(beta, numerator, denominator, value):
        if numerator is None:
            return value, 1.0
        return beta * numerator + value, beta * denominator + 1

    def added(self, o):
        self.local_numerator, self.local_denominator = self.average(
            self.settings.beta_local, self.local_numerator, self.local_denominator, o
        )
        local = self.local_numerator / max(self.local_denominator, 1e-6)
        numerator, denominator = self.average(
            self.settings.beta_global, self.state.numerator, self.state.denominator, local
        )
        self.state = replace(self.state, numerator=numerator, denominator=denominator)
        return numerator / max(denominator, 1e-6) + local


class Model:
    def __init__(self, config, params, stored_loops, batch, groups=0, gaps=None):
        """`params` name -> tensor; `stored_loops` rows of per-loop tensors; `batch` with tokens [B,S], documents or None, noise or
        None; `groups` as in moe.feed_forward: 0 switches the capacity off."""
        self.config, self.params, self.stored_loops = config, params, stored_loops
        self.batch, self.groups = batch, groups
        self.gaps = gaps or moe.Gaps()
        self.visits = []
        self.kept = {}
        tokens = batch["tokens"]
        document = batch["document"]
        self.documents = document_of(torch.zeros_like(tokens) if document is None else document)

    def keep(self, name, value):
        self.kept.setdefault(name, []).append(value.detach())

    def norm(self, kind, x, name):
        return norm(kind, x, lambda: self.params[name], self.config.norm_eps)

    def row(self, loop):
        """Index of a per-loop tensor: beyond the last one the last one serves."""
        return min(loop, self.stored_loops) - 1

    # Embedding and prelude

    def embedding(self):
        x = self.params["embed_tokens.weight"][self.batch["tokens"]]
        if self.config.embedding.scale == "sqrt_d":
            x = x * math.sqrt(self.config.hidden_size)
        x = self.norm(self.config.norms.embedding, x, "embed_norm.weight")
        self.keep("embed", x)
        return x

    def prelude(self):
        """e of section 2."""
        x = self.embedding()
        for i in range(self.config.n_prelude_layers):
            x = self.layer(f"prelude.{i}.", x, depth=i + 1)
        self.keep("prelude_state", x)
        return x

    def initial_state(self, e):
        kind = self.config.initial_state
        h = e if kind == "embedding" else torch.zeros_like(e) if kind == "zero" else self.batch["noise"]
        lanes = self.config.hyper_connections.lanes
        return State(h, lanes=torch.stack([e] * lanes) if lanes > 0 else None)

    # Loops

    def loop(self, state, e, t):
        """Loop t: re-injection, core layers, loop-end norm."""
        config, hyper = self.config, self.config.hyper_connections.lanes > 0
        row = self.row(t)
        u = torch.einsum("k,kbsd->bsd", self.params["hyper.read"][row], state.lanes) if hyper else self.reinject(state.h, e, t)
        if config.conditioning == "embedding":
            u = u + self.params["condition.embedding"][row]
        modulation = self.modulation(u, row) if config.conditioning == "modulation" else None
        self.keep("loop_input", u)

        looping = LoopingResidual(config.looping_residual, state) if config.looping_residual.enabled else None
        x = u
        for l in range(config.n_layers):
            prefix = f"core.{l}." if config.tied else f"core.{row}.{l}."
            depth = config.n_prelude_layers + (t - 1) * config.n_layers + l + 1
            x = self.layer(prefix, x, depth, loop=t, looping=looping, modulation=modulation)
        s = self.norm(config.norms.loop_end, x, "loop_norm.weight")
        self.keep("loop_state", s)
        if looping:
            state = looping.state
        if not hyper:
            return replace(state, h=s)
        mix, write = self.params["hyper.mix"][row], self.params["hyper.write"][row]
        lanes = torch.einsum("ij,jbsd->ibsd", mix, state.lanes) + torch.einsum("i,bsd->ibsd", write, s)
        return replace(state, h=lanes.sum(dim=0), lanes=lanes)

    def reinject(self, h, e, t):
        config = self.config.reinjection
        if config.kind == "convex":
            gate = configuration.reinjection_gate(self.config, t)
            return h if t == 1 else (1 - gate) * h + gate * e
        if config.kind == "boundary" and t == 1:
            return e if config.first == "e" else self.alpha() * e
        return self.reinject_later(h, e)

    def reinject_later(self, h, e):
        """The operators whose form does not depend on the loop: loops after the first, and in front of the coda."""
        config = self.config.reinjection
        if config.kind == "none":
            return h
        if config.kind == "boundary":
            return self.boundary_norm(h) + self.alpha() * e if config.inject else self.boundary_norm(h)
        if config.kind == "additive":
            return h + e
        if config.kind == "linear":
            pair = (e, h) if config.order == "eh" else (h, e)
            return torch.cat(pair, dim=-1) @ self.params["reinject.weight"].T
        assert config.kind == "decay"
        delta = torch.log(1 + torch.exp(self.params["reinject.dt_bias"]))
        decay = torch.exp(-delta * torch.exp(self.params["reinject.A_log"]))
        return decay * h + delta * (e @ self.params["reinject.weight"].T)

    def alpha(self):
        config = self.config.reinjection
        return self.params["reinject.alpha"] if config.alpha_learned else config.alpha

    def boundary_norm(self, h):
        return rms(h, self.config.norm_eps) if self.config.reinjection.norm else h

    def modulation(self, u, row):
        """Section 9: s and b, [B,S,D] each."""
        inner = rms(u, self.config.norm_eps) @ self.params["condition.in.weight"].T + self.params["condition.loop"][row]
        m = gelu(inner) @ self.params["condition.out.weight"].T
        return torch.chunk(m, 2, dim=-1)

    # One layer

    def layer(self, prefix, x, depth, loop=0, looping=None, modulation=None):
        """`depth` counts visits in the unrolled stack from 1; `loop` is 0 in prelude and coda."""
        weight = lambda name: self.params[prefix + name]
        h = self.branch_input(prefix + "attn_norm.weight", x, depth, modulation)
        branch = attention(self.config, weight, h, self.documents)
        if loop:
            self.keep("attn_branch", branch)
        if looping:
            added = looping.added(self.branch_factor() * branch)
            self.keep("looping_residual", added)
            x = x + added
        else:
            x = self.combine(x, branch, prefix + "attn_post_norm.weight")

        h = self.branch_input(prefix + "ffn_norm.weight", x, depth, modulation)
        kind = self.config.feed_forward.core if loop else self.config.feed_forward.outer
        branch = dense(self.config, weight, h) if kind == "dense" else self.experts(prefix, weight, h, loop)
        if loop:
            self.keep("ffn_branch", branch)
        if kind == "moe":
            branch = self.norm(self.config.norms.moe_out, branch, prefix + "moe.out_norm.weight")
        x = self.combine(x, branch, prefix + "ffn_post_norm.weight")
        x = self.norm(self.config.norms.block, x, prefix + "block_norm.weight")
        if loop:
            self.keep("layer_state", x)
        return x

    def branch_input(self, name, x, depth, modulation):
        h = self.norm(self.config.norms.pre, x, name)
        if modulation:
            scale, shift = modulation
            h = (1 + scale) * h + shift
        return h / math.sqrt(depth) if self.config.residual.scheme == "layer_norm_scaling" else h

    def branch_factor(self):
        """What a branch is multiplied with: s of the scheme scaled, else `residual.multiplier` (section 9)."""
        if self.config.residual.scheme == "scaled":
            return configuration.residual_scale(self.config)
        return self.config.residual.multiplier

    def combine(self, x, branch, post_norm):
        scheme, branch = self.config.residual.scheme, self.branch_factor() * branch
        post = lambda value: self.norm(self.config.norms.post, value, post_norm)
        if scheme == "deepnorm":
            return post(configuration.deepnorm_alpha(self.config) * x + branch)
        if scheme == "sandwich_outer":
            return post(x + branch)
        if scheme == "sandwich_branch":
            return x + post(branch)
        return x + branch

    def experts(self, prefix, weight, h, loop):
        config = self.config
        tied_core = bool(loop) and config.tied
        row = self.row(loop) if loop else 0
        router = weight(f"moe.routers.{row if tied_core and config.moe.router == 'per_loop' else 0}.weight")
        bias = weight(f"moe.routers.{row}.bias") if tied_core and config.moe.router == "shared_bias" else None
        balance = weight("moe.balance_bias")
        if balance.dim() == 2:
            balance = balance[row]
        flat = h.reshape(-1, h.shape[-1])
        y, visit = moe.feed_forward(config, weight, flat, router, bias, balance, self.groups, self.gaps)
        self.visits.append(moe.Visit(layer=prefix[:-1], loop=loop, with_gradient=torch.is_grad_enabled(), **visit))
        return y.view_as(h)

    # Coda and head

    def logits(self, state, e):
        """After any loop: the operator in front of the coda, coda layers, final norm, head."""
        config = self.config
        before = config.reinjection.before_coda
        y = state.h
        if before == "full":
            y = self.reinject_later(y, e)
        elif before == "norm":
            y = self.boundary_norm(y)
        self.keep("coda_input", y)
        for i in range(config.n_coda_layers):
            depth = config.n_prelude_layers + config.loops * config.n_layers + i + 1
            y = self.layer(f"coda.{i}.", y, depth)
        y = self.norm(config.norms.final, y, "final_norm.weight")
        self.keep("final_state", y)
        head = self.params["embed_tokens.weight" if config.embedding.tied else "lm_head.weight"]
        logits = config.head.multiplier * (y @ head.T)
        if config.head.soft_cap > 0:
            logits = config.head.soft_cap * torch.tanh(logits / config.head.soft_cap)
        self.keep("logits", logits)
        return logits

    def without_record(self, compute):
        """Result of `compute` without trace in `visits` and `kept`: for losses that training does not take."""
        visits, kept = self.visits, self.kept
        self.visits, self.kept = [], {}
        with torch.no_grad():
            result = compute()
        self.visits, self.kept = visits, kept
        return result
