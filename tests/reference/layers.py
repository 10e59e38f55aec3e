"""Norms, attention and the dense feed-forward: docs/model_family.md section 2."""

import math

import torch


def rms(x, eps):
    """Sections 1 and 2: without gain, over the last axis."""
    return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + eps)


def norm(kind, x, gain, eps):
    """A norm place: off, plain or gain; `gain` is a function that finds the weight, called only if there is one."""
    if kind == "off":
        return x
    if kind == "plain":
        return rms(x, eps)
    return gain() * rms(x, eps)


def document_of(document):
    """Number of the document of each position [B,S] from the marks of /batches/document; position 0 always starts one."""
    starts = document.clone()
    starts[:, 0] = 1
    return torch.cumsum(starts, dim=1)


def positions_in(documents):
    """Position of each token inside its document [B,S], from 0."""
    same = documents.unsqueeze(2) == documents.unsqueeze(1)
    return torch.tril(same).sum(dim=2) - 1


def rotate(x, positions, theta):
    """Rotary positions, half layout (docs/loom.md 3.4). x [B,S,heads,dh]."""
    half = x.shape[-1] // 2
    frequency = theta ** (-2.0 * torch.arange(half, dtype=torch.float64) / x.shape[-1])
    angle = positions.to(torch.float64)[:, :, None, None] * frequency
    cos, sin = torch.cos(angle).to(x.dtype), torch.sin(angle).to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def attention(config, weight, h, documents):
    """h [B,S,D] normalised input; `weight(name)` finds a tensor of the layer. Returns the output of o_proj, [B,S,D]."""
    rows, length, _ = h.shape
    head_width, query_heads, kv_heads = config.head_dim, config.n_query_heads, config.n_kv_heads
    q = (h @ weight("attn.q_proj.weight").T).view(rows, length, query_heads, head_width)
    k = (h @ weight("attn.k_proj.weight").T).view(rows, length, kv_heads, head_width)
    v = (h @ weight("attn.v_proj.weight").T).view(rows, length, kv_heads, head_width)
    q = norm(config.attention.qk_norm, q, lambda: weight("attn.q_norm.weight"), config.norm_eps)
    k = norm(config.attention.qk_norm, k, lambda: weight("attn.k_norm.weight"), config.norm_eps)
    positions = positions_in(documents)
    q, k = rotate(q, positions, config.rope_theta), rotate(k, positions, config.rope_theta)

    k = k.repeat_interleave(query_heads // kv_heads, dim=2)
    v = v.repeat_interleave(query_heads // kv_heads, dim=2)
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(head_width)
    visible = torch.tril(documents.unsqueeze(2) == documents.unsqueeze(1))
    scores = scores.masked_fill(~visible.unsqueeze(1), -math.inf)
    y = torch.einsum("bhij,bjhd->bihd", torch.softmax(scores, dim=-1), v)
    y = y.reshape(rows, length, query_heads * head_width)
    if config.attention.output_gate:
        y = torch.sigmoid(h @ weight("attn.g_proj.weight").T) * y
    return y @ weight("attn.o_proj.weight").T


def silu(x):
    return x * torch.sigmoid(x)


def gelu(x):
    return x / 2 * (1 + torch.erf(x / math.sqrt(2)))


def dense(config, weight, h):
    up = h @ weight("mlp.up_proj.weight").T
    if config.feed_forward.activation == "swiglu":
        inner = silu(h @ weight("mlp.gate_proj.weight").T) * up
    elif config.feed_forward.activation == "gelu":
        inner = gelu(up)
    else:
        inner = torch.clamp(up, min=0) ** 2
    return inner @ weight("mlp.down_proj.weight").T
