"""Muon and muonh for one matrix: docs/model_family.md sections 5 and 9."""

import math

import torch

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
POLAR_EXPRESS = (
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
)


def momentum(settings, n):
    """The momentum of step n."""
    if settings.momentum_steps == 0:
        return settings.momentum
    start = settings.momentum_start
    return start + (settings.momentum - start) * min((n - 1) / settings.momentum_steps, 1.0)


def orthogonalised(settings, u):
    if settings.row_normalise:
        u = u / torch.clamp(torch.linalg.vector_norm(u, dim=1, keepdim=True), min=1e-7)
    norm = torch.linalg.vector_norm(u)
    if settings.orthogonalise == "polar_express":
        x, coefficients = u / (1.02 * norm + 1e-6), POLAR_EXPRESS[: settings.ns_steps]
    else:
        x, coefficients = u / (norm + settings.ns_eps), [NEWTON_SCHULZ] * settings.ns_steps
    transposed = x.shape[0] > x.shape[1]
    x = x.T if transposed else x
    for a, b, c in coefficients:
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if transposed else x


def reduced(settings, x, state):
    """The second-moment option: rows or columns of X are brought to equal size, |X|_F stays."""
    rows, columns = x.shape
    axis, count = (1, columns) if rows >= columns else (0, rows)
    v = (x * x).mean(dim=axis, keepdim=True)
    second = state.get("S", torch.zeros_like(v))
    state["S"] = settings.second_moment * second + (1 - settings.second_moment) * v
    s = 1 / torch.sqrt(torch.clamp(state["S"], min=1e-10))
    norm = torch.sqrt((count * v).sum())
    return x * s * norm / torch.clamp(torch.sqrt((count * v * s * s).sum()), min=1e-10)


def direction(settings, u, state):
    """X of one matrix from u, the momentum after Nesterov; `state` keeps the second moment."""
    x = orthogonalised(settings, u)
    return reduced(settings, x, state) if settings.second_moment > 0 else x


def updated(settings, p, x, rate):
    """Muon: `rate` is muon.lr f(n) / div."""
    rate = rate * math.sqrt(max(1.0, p.shape[0] / p.shape[1]))
    decays = (x * p >= 0).to(p.dtype) if settings.cautious else 1.0
    return p * (1 - rate * settings.weight_decay * decays) - rate * x


def updated_on_sphere(p, x, rate, size):
    """muonh: p keeps the Frobenius norm `size`."""
    x = x * size / torch.clamp(torch.linalg.vector_norm(x), min=1e-10)
    p = p - rate * x
    return p * size / torch.clamp(torch.linalg.vector_norm(p), min=1e-10)
