"""The cases that docs/model_family.md section 9 asks for and tests/golden_family does not reach.

A case is a set of changes to BASE and says in `covers` what it is for. Sizes are those of the golden cases. Another `data_seed`
than 0 has its reason beside it: as a rule that the smallest gap of a choice of experts (moe.Gaps) was below 1e-5.
"""

from config import completed, merged

BASE = {
    "format_version": 2,
    "vocab_size": 67,
    "hidden_size": 24,
    "head_dim": 10,
    "n_query_heads": 3,
    "n_kv_heads": 1,
    "n_prelude_layers": 1,
    "n_layers": 2,
    "n_coda_layers": 1,
    "loops": 3,
    "tied": True,
    "batch_size": 2,
    "seq_len": 13,
    "steps": 3,
    "norm_eps": 1e-06,
    "rope_theta": 10000.0,
    "rope_layout": "half",
    "attention": {"qk_norm": "off", "output_gate": False},
    "feed_forward": {"core": "dense", "outer": "dense", "activation": "swiglu", "intermediate": 44},
    "moe": None,
    "norms": {
        "pre": "gain",
        "post": "plain",
        "block": "off",
        "loop_end": "plain",
        "embedding": "off",
        "final": "gain",
        "moe_out": "off",
    },
    "embedding": {"scale": "none", "tied": False},
    "initial_state": "embedding",
    "residual": {
        "scheme": "plain",
        "lambda": 0.5,
        "loops_power": 1.0,
        "layers_power": 0.5,
        "p": 0.5,
        "count_gradient_visits": False,
    },
    "looping_residual": {"enabled": False, "beta_local": 0.5, "beta_global": 0.5},
    "reinjection": {
        "kind": "convex",
        "lambda": 0.9,
        "alpha": 1.0,
        "alpha_learned": False,
        "norm": True,
        "inject": True,
        "first": "e",
        "before_coda": "off",
        "order": "eh",
    },
    "hyper_connections": {"lanes": 0},
    "head": {"soft_cap": 0.0, "logit_z_loss": 0.0},
    "loss": {"loop_weights": []},
    "backprop": {"mode": "full", "loops": 0, "step_per_segment": True},
    "optimizer": {
        "name": "adamw",
        "lr": 0.003,
        "beta1": 0.9,
        "beta2": 0.95,
        "eps": 1e-05,  # large, so that a gradient element near zero does not step by its rounding
        "weight_decay": 0.1,
        "decay": "matrices",
        "clip_grad_norm": 1.0,
        "momentum": 0.9,
        "tied_rate_power": 0.0,
        "muon": {
            "lr": 0.02,
            "momentum": 0.95,
            "ns_steps": 5,
            "ns_eps": 1e-07,
            "weight_decay": 0.05,
            "routers": False,
        },
    },
    "schedule": {"name": "wsd", "total_steps": 6, "warmup_ratio": 0.34, "decay_ratio": 0.5, "min_ratio": 0.1},
    "growth": None,
    "ignored": False,
    "documents": False,
}

MOE = {
    "n_routed_experts": 5,
    "top_k": 2,
    "n_shared_experts": 1,
    "expert_intermediate": 14,
    "score": "sigmoid",
    "renormalise": True,
    "router": "per_loop",
    "balance_bias_rate": 0.004,
    "aux_loss": 0.0,
    "aux_scope": "loop",
    "router_z_loss": 0.0,
}


def moe(core="moe", outer="dense", **changes):
    """Changes that put experts into the core, or into prelude and coda, or both."""
    return {"feed_forward": {"core": core, "outer": outer}, "moe": {**MOE, **changes}}


def muon(name="muon", **changes):
    return {"optimizer": {"name": name, "muon": changes}}


def backprop(mode, loops, **changes):
    return {"backprop": {"mode": mode, "loops": loops, **changes}}


LOOM = {  # LOOM's block and loop, at one layer less than BASE in prelude and coda
    "n_prelude_layers": 0,
    "n_coda_layers": 0,
    "attention": {"output_gate": True},
    "norms": {"pre": "plain", "block": "plain", "final": "off", "moe_out": "gain"},
    "embedding": {"scale": "sqrt_d"},
    "residual": {"scheme": "scaled", "lambda": 0.7},
    "looping_residual": {"enabled": True, "beta_local": 0.6, "beta_global": 0.35},
}
LINEAR = {"reinjection": {"kind": "linear"}}
BOUNDARY = {  # without the loop-end norm, which would hide the operator's own
    "reinjection": {"kind": "boundary", "alpha": 0.707, "before_coda": "full"},
    "norms": {"loop_end": "off"},
}
NO_REINJECTION = {"reinjection": {"kind": "none"}}

CASES = {}


def case(name, covers, *changes, data_seed=0, initial=None):
    """`initial`: name of the initialiser whose distributions the case states in /initial."""
    assert name not in CASES
    values = BASE
    for change in changes + (({"initialisation": {"name": initial}},) if initial else ()):
        values = merged(values, change)
    config = {**completed(values), "case": name, "covers": covers}
    CASES[name] = {"config": config, "data_seed": data_seed, "initial": initial is not None}


# Accumulation and ranks

case("accumulate_ignored", "four micro-batches of one row; ignored targets unevenly over them",
     {"batch_size": 4, "micro_batches": 4, "ignored": True, "n_layers": 1})
case("accumulate_aux", "auxiliary loss per loop over two micro-batches, ignored targets (which A counts)",
     moe(aux_loss=0.1, score="softmax"), {"batch_size": 4, "micro_batches": 2, "ignored": True, "n_layers": 1})
case("accumulate_aux_summed", "auxiliary loss `summed` over two micro-batches; experts in prelude and coda as well",
     moe(outer="moe", aux_loss=0.1, aux_scope="summed"), {"batch_size": 4, "micro_batches": 2, "n_layers": 1, "loops": 2})
case("accumulate_router_z", "router z-loss over two micro-batches of two ranks, with the biases of the loops",
     moe(router="shared_bias", router_z_loss=0.02), {"batch_size": 4, "micro_batches": 2, "ranks": 2, "n_layers": 1})
case("accumulate_logit_z", "logit z-loss on soft-capped logits, ignored targets, two micro-batches; documents",
     {"batch_size": 4, "micro_batches": 2, "ignored": True, "documents": True, "n_layers": 1,
      "head": {"soft_cap": 3.0, "logit_z_loss": 0.03}})
case("accumulate_segmented", "stored states of two micro-batches between segments; noise as h_0",
     LOOM, backprop("segmented", 2), {"batch_size": 4, "micro_batches": 2, "initial_state": "noise", "n_prelude_layers": 1,
                                      "ignored": True})
case("ranks_aux", "micro-steps are the i-th micro-batches of all ranks: A over both ranks",
     moe(aux_loss=0.2), {"batch_size": 4, "micro_batches": 2, "ranks": 2, "n_layers": 1})

# Capacity

case("capacity_rank", "capacity per micro-batch of one rank; A counts choices, load counts kept slots",
     moe(capacity_factor=1.0, aux_loss=0.05), {"batch_size": 4, "micro_batches": 2, "n_layers": 1})
case("capacity_rank_ranks2", "capacity per rank, two ranks", moe(capacity_factor=1.1, router="shared"),
     {"batch_size": 4, "ranks": 2, "n_layers": 1})
# Data seed 0 lets two rows start with the same token: equal states, equal weights, a tie at the capacity.
case("capacity_global", "capacity over two ranks in each of two micro-steps",
     moe(capacity_factor=1.1, capacity_scope="global"), {"batch_size": 4, "micro_batches": 2, "ranks": 2, "n_layers": 1}, data_seed=1)
case("capacity_plain_weights", "capacity without renormalised weights (no second division either); experts everywhere",
     moe(outer="moe", capacity_factor=0.9, renormalise=False, score="softmax", n_shared_experts=2),
     {"batch_size": 2, "n_layers": 1, "loops": 2})
case("capacity_segmented", "LOOM with capacity in segments of 2 of 5 loops and two micro-batches",
     LOOM, moe(capacity_factor=1.0), backprop("segmented", 2), {"loops": 5, "batch_size": 2, "micro_batches": 2}, initial="loom")
case("capacity_top1", "k = 1 softmax with capacity and auxiliary loss",
     moe(capacity_factor=1.2, top_k=1, renormalise=False, score="softmax", aux_loss=0.05, n_shared_experts=0))

# checkpointed: must equal full

case("checkpointed_looping_residual", "checkpointed, the looping residual crosses segments of 2 of 5 loops",
     LOOM, moe(), backprop("checkpointed", 2), {"loops": 5})
case("checkpointed_aux_summed", "checkpointed, auxiliary loss `summed` over loops of different segments, two micro-batches",
     moe(aux_loss=0.1, aux_scope="summed", router_z_loss=0.01), backprop("checkpointed", 2),
     {"loops": 3, "batch_size": 2, "micro_batches": 2})
case("checkpointed_supervised", "checkpointed, losses after three of four loops",
     backprop("checkpointed", 2), {"loops": 4, "n_layers": 1, "loss": {"loop_weights": [0.3, 0.0, 0.25, 0.6]}}, BOUNDARY)

# Balance bias per loop

case("balance_layer_loop", "a balance bias per loop, [R,E]; prelude and coda keep [E]",
     moe(outer="moe", balance_scope="layer_loop"), {"n_layers": 1})
case("balance_layer_loop_segmented", "a balance bias per loop with segments and a shared router",
     LOOM, moe(balance_scope="layer_loop", router="shared"), backprop("segmented", 2))
case("balance_layer_loop_random", "a balance bias per loop with random loops: beyond R the last row",
     moe(balance_scope="layer_loop", router="shared_bias"),
     {"loop_count": {"distribution": "uniform"}, "loops": 2, "n_layers": 1, "steps": 4})

# Random loops

case("random_full", "random loops, back-propagation through all; beyond R the last router",
     moe(), {"loop_count": {"distribution": "uniform"}, "n_layers": 1, "steps": 4})
case("random_truncated", "random loops, the last min(3, R_n) with gradient; modulation",
     LINEAR, backprop("truncated", 3), {"loop_count": {"distribution": "uniform"}, "loops": 4, "n_layers": 1, "steps": 4,
                                        "conditioning": "modulation"})
case("random_segmented", "random loops in segments of 2; NaN where a step has fewer segments",
     LOOM, moe(), backprop("segmented", 2), {"loop_count": {"distribution": "uniform"}, "n_layers": 1, "steps": 4})
case("random_untied", "random loops over untied cores with experts; beyond R the last core",
     moe(aux_loss=0.05), {"tied": False, "loop_count": {"distribution": "poisson"}, "n_layers": 1, "steps": 4, "loops": 2})
case("random_lanes", "random loops with hyper-connections: beyond R the last rows",
     NO_REINJECTION, {"hyper_connections": {"lanes": 2}, "loop_count": {"distribution": "uniform"}, "n_layers": 1, "steps": 4}, initial="isodepth")

# Loop conditioning

case("condition_embedding", "an embedding per loop added after the re-injection; it takes gain_rate and no decay",
     LINEAR, {"conditioning": "embedding", "n_layers": 1, "optimizer": {"gain_rate": 0.5}}, initial="isodepth")
case("condition_modulation", "modulated pre-norms of a core with experts, divided by the depth afterwards",
     moe(), {"conditioning": "modulation", "conditioning_width": 7, "residual": {"scheme": "layer_norm_scaling"}}, initial="loom")
case("condition_modulation_truncated", "modulation with truncated gradients; the coda's norms are not modulated",
     backprop("truncated", 2), BOUNDARY, {"conditioning": "modulation", "loops": 4, "n_layers": 1, "norms": {"pre": "plain"}})
case("condition_embedding_random_segmented", "loop embedding with random loops in segments",
     backprop("segmented", 2), {"conditioning": "embedding", "loop_count": {"distribution": "poisson"}, "n_layers": 1, "steps": 4})
case("condition_growth", "rows of the loop embedding grow with the loops and keep their moments",
     {"conditioning": "embedding", "n_layers": 1, "growth": {"initial_loops": 2, "at_step": 3, "rewarm_steps": 0}, "steps": 4})
case("condition_modulation_growth_muon", "modulation under Muon; rows of condition.loop grow",
     muon(), {"conditioning": "modulation", "n_layers": 1,
              "growth": {"initial_loops": 1, "at_step": 2, "rewarm_steps": 0}, "steps": 4})

# Multipliers

case("multipliers_head", "residual and head multiplier with soft cap and logit z-loss; looping residual on plain",
     {"residual": {"multiplier": 0.25}, "head": {"multiplier": 0.5, "soft_cap": 3.0, "logit_z_loss": 0.03},
      "looping_residual": {"enabled": True}, "n_layers": 1})
case("multiplier_deepnorm", "residual multiplier inside deepnorm", NO_REINJECTION,
     {"residual": {"scheme": "deepnorm", "multiplier": 0.4, "p": 0.3}, "norms": {"post": "gain", "loop_end": "off"}}, initial="deepnorm")
case("multiplier_sandwich", "residual multiplier inside the outer sandwich norm",
     {"residual": {"scheme": "sandwich_outer", "multiplier": 0.4}, "norms": {"post": "gain"}, "n_layers": 1})
case("multiplier_scaled", "`scaled` has s and takes no multiplier", LOOM, moe(), {"residual": {"multiplier": 0.3}, "n_layers": 1})
case("multiplier_tied_head", "head multiplier on a tied, unscaled head with sqrt_d embedding",
     {"embedding": {"tied": True, "scale": "sqrt_d"}, "head": {"multiplier": 0.3}, "n_layers": 1})

# Re-injection

case("boundary_alpha_e", "boundary: alpha e in loop 1, learned alpha, norm only in front of the coda",
     BOUNDARY, {"reinjection": {"first": "alpha_e", "alpha_learned": True, "before_coda": "norm"}, "n_layers": 1}, initial="exponents")
case("boundary_no_inject", "boundary: norm without injection in loops after the first",
     BOUNDARY, {"reinjection": {"inject": False, "first": "alpha_e"}, "n_layers": 1})
case("linear_he", "linear W [h ; e] from noise, once more in front of the coda, truncated; documents",
     backprop("truncated", 2), {"reinjection": {"kind": "linear", "order": "he", "before_coda": "full"},
                                "initial_state": "noise", "residual": {"scheme": "sandwich_outer"}, "norms": {"post": "gain"},
                                "documents": True, "n_layers": 1}, initial="huginn")
case("decay_before_coda", "decay from zero, once more in front of the coda; decay set all",
     {"reinjection": {"kind": "decay", "before_coda": "full"}, "initial_state": "zero", "n_layers": 1,
      "optimizer": {"decay": "all"}}, initial="loom")
case("convex_clipped", "convex with a gate that is clipped to 1", {"reinjection": {"lambda": 3.0}, "n_layers": 1})

# Muon

case("muon_routers", "Muon on per-loop routers; two shared experts apart; rate of tied matrices divided",
     moe(n_shared_experts=2), muon(routers=True), {"optimizer": {"tied_rate_power": 0.5}, "n_layers": 1}, initial="huginn")
case("muon_polar_express", "Muon with five polar-express steps", muon(orthogonalise="polar_express"), {"n_layers": 1})
case("muon_polar_express_3", "Muon with the first three polar-express steps", LINEAR,
     muon(orthogonalise="polar_express", ns_steps=3), {"n_layers": 1})
case("muon_row_normalise", "Muon, rows normalised before", muon(row_normalise=True), {"n_layers": 1})
case("muon_second_moment", "Muon, second moment of rows and of columns", muon(second_moment=0.9), {"n_layers": 1})
# Cautious decay is a step function of X p: where that is near zero, rounding decides whether an element decays. The decay is
# so small that one such element stays below the tolerance, and leaving the option out does not.
case("muon_cautious", "Muon, decay only where the update has the sign of the weight",
     muon(cautious=True, weight_decay=0.01), {"n_layers": 1})
case("muon_momentum", "Muon, momentum from .5 to .95 in two steps", muon(momentum_start=0.5, momentum_steps=2),
     {"n_layers": 1, "steps": 4})
MUON_ALL = muon(orthogonalise="polar_express", row_normalise=True, second_moment=0.95, cautious=True, momentum_start=0.85,
                momentum_steps=5, routers=True, weight_decay=0.01)
case("muon_all_moe", "all Muon options, experts in all parts, two shared experts, segments",
     MUON_ALL, moe(outer="moe", n_shared_experts=2), backprop("segmented", 2), {"n_layers": 1}, initial="exponents")
case("muon_all_untied_growth", "all Muon options, untied cores 2 -> 3 with experts",
     MUON_ALL, moe(), {"tied": False, "n_layers": 1, "growth": {"initial_loops": 2, "at_step": 2, "rewarm_steps": 2}, "steps": 4})
case("muonh_untied_growth", "muonh, untied cores 2 -> 4: copies keep the norms that they have at the copy",
     muon("muonh"), BOUNDARY, {"tied": False, "loops": 4, "n_layers": 1,
                               "growth": {"initial_loops": 2, "at_step": 3, "rewarm_steps": 0}, "steps": 4})
case("muonh_moe", "muonh with row_normalise and second_moment on every expert apart; router growth",
     muon("muonh", row_normalise=True, second_moment=0.95, orthogonalise="polar_express", routers=True, lr=0.05),
     moe(n_shared_experts=2), {"n_layers": 1, "growth": {"initial_loops": 2, "at_step": 2, "rewarm_steps": 0}})

# Rates, other optimizers, growth

RATES = {"embedding_rate": 3.0, "head_rate": 0.25, "gain_rate": 0.6}
case("rates_adamw", "rates of embedding, head and gains; tied_rate_power; decay of all tensors",
     {"optimizer": {**RATES, "tied_rate_power": 0.5, "decay": "all"}}, moe(router="shared_bias"), {"n_layers": 1}, initial="deepnorm")
case("rates_muon", "the same rates beside Muon, with hyper-connections and qk gains", muon(), {"optimizer": RATES},
     NO_REINJECTION, {"hyper_connections": {"lanes": 3}, "attention": {"qk_norm": "gain"}, "n_layers": 1})
case("rates_sgd_tied", "SGD with momentum and decay; tied embedding, sqrt_d, embedding_rate",
     {"optimizer": {**RATES, "name": "sgd", "lr": 0.4, "momentum": 0.8, "weight_decay": 0.05, "tied_rate_power": 0.5},
      "embedding": {"tied": True, "scale": "sqrt_d"}, "norms": {"embedding": "gain"}})
case("sgd_segmented", "SGD with momentum over segments: momentum per update", LOOM, moe(),
     backprop("segmented", 2), {"optimizer": {"name": "sgd", "lr": 0.3, "momentum": 0.7, "weight_decay": 0.02, "decay": "all"}})
case("growth_untied_2to4", "untied cores 2 -> 4, copied in turn; cosine with re-warming",
     BOUNDARY, {"tied": False, "loops": 4, "n_layers": 1, "growth": {"initial_loops": 2, "at_step": 2, "rewarm_steps": 3},
                "steps": 5, "schedule": {"name": "cosine"}}, initial="exponents")
case("growth_lanes", "rows of hyper-connections 2 -> 4 keep their moments",
     NO_REINJECTION, {"hyper_connections": {"lanes": 2}, "loops": 4, "n_layers": 1,
                      "growth": {"initial_loops": 2, "at_step": 3, "rewarm_steps": 0}, "steps": 4})
case("growth_router_bias", "tied loops 1 -> 3: router biases copied; linear schedule with re-warming; SGD",
     moe(router="shared_bias"), {"n_layers": 1, "growth": {"initial_loops": 1, "at_step": 2, "rewarm_steps": 2}, "steps": 4,
                                 "schedule": {"name": "linear"}, "optimizer": {"name": "sgd", "lr": 0.3}})
case("growth_segmented", "segments after growth; NaN before; balance bias per loop grows with the routers",
     LOOM, moe(balance_scope="layer_loop"), backprop("segmented", 2),
     {"n_layers": 1, "growth": {"initial_loops": 2, "at_step": 2, "rewarm_steps": 0}})

# Losses of pieces

case("truncated_aux", "A and Q of the loops with gradient only; experts in prelude and coda; load of all loops",
     moe(outer="moe", router="shared_bias", aux_loss=0.1, router_z_loss=0.01), LINEAR, backprop("truncated", 2), {"n_layers": 1})
case("truncated_supervised", "truncated with losses after all loops: those without gradient train coda and head",
     LINEAR, backprop("truncated", 1), {"loops": 3, "n_layers": 1, "loss": {"loop_weights": [0.3, 0.2, 0.7]}})
case("truncated_looping_residual", "the looping residual's global values enter as constants",
     backprop("truncated", 2), {"loops": 4, "looping_residual": {"enabled": True, "beta_local": 0.6, "beta_global": 0.35}})
case("segmented_aux_z", "A and Q per segment, a step after each",
     moe(aux_loss=0.1, router_z_loss=0.02), backprop("segmented", 2), {"n_layers": 1})
case("segmented_aux_z_one_step", "A (`summed`) and Q per segment, one step; experts in prelude and coda in every segment",
     moe(outer="moe", aux_loss=0.1, aux_scope="summed", router_z_loss=0.02),
     backprop("segmented", 2, step_per_segment=False), {"n_layers": 1})
case("moe_outer", "experts in prelude and coda only, auxiliary and router z-loss", moe(core="dense", outer="moe", aux_loss=0.1,
     router_z_loss=0.01, n_shared_experts=2), {"n_layers": 1}, initial="isodepth")
case("segmented_documents", "documents and ignored targets in segments; GELU; two coda layers",
     backprop("segmented", 1), {"documents": True, "ignored": True, "n_layers": 1, "n_coda_layers": 2, "loops": 2,
                                "feed_forward": {"activation": "gelu"}})

# Norm places

# Data seed 0 has a gradient element so near zero that float32 moves its AdamW step by more than the tolerance.
case("norms_gain", "a gain in every place", moe(), {
    "attention": {"qk_norm": "gain", "output_gate": True}, "residual": {"scheme": "sandwich_branch"}, "n_layers": 1, "norms": {
        place: "gain" for place in ("pre", "post", "block", "loop_end", "embedding", "final", "moe_out")}}, initial="loom", data_seed=1)
case("norms_plain", "a norm without gain in every place", moe(), {
    "attention": {"qk_norm": "plain"}, "residual": {"scheme": "sandwich_outer"}, "n_layers": 1, "norms": {
        place: "plain" for place in ("pre", "post", "block", "loop_end", "embedding", "final", "moe_out")}})
case("norms_off", "no norm where there may be none; ReLU^2; four query heads on two",
     {"n_query_heads": 4, "n_kv_heads": 2, "head_dim": 6, "n_layers": 1, "feed_forward": {"activation": "relu2"}, "norms": {
         place: "off" for place in ("block", "loop_end", "embedding", "final", "moe_out")}})
case("norms_mixed", "gain and plain mixed; layer_norm_scaling with two prelude and two coda layers",
     {"n_prelude_layers": 2, "n_coda_layers": 2, "loops": 2, "attention": {"qk_norm": "plain"},
      "residual": {"scheme": "layer_norm_scaling"}, "norms": {"pre": "plain", "block": "gain", "loop_end": "gain", "final": "plain"}})
