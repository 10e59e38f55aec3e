"""Names and shapes of all tensors of a model: the table of docs/model_family.md section 1 and the additions of section 9."""


def layer_prefixes(config, part, stored_loops):
    """Prefixes of the stored layers of a part: prelude, core or coda."""
    if part == "prelude":
        return [f"prelude.{i}." for i in range(config.n_prelude_layers)]
    if part == "coda":
        return [f"coda.{i}." for i in range(config.n_coda_layers)]
    if config.tied:
        return [f"core.{l}." for l in range(config.n_layers)]
    return [f"core.{t}.{l}." for t in range(stored_loops) for l in range(config.n_layers)]


def layer_shapes(config, prefix, part, stored_loops):
    width, head_width = config.hidden_size, config.head_dim
    query, key = config.n_query_heads * head_width, config.n_kv_heads * head_width
    shapes = {}
    if config.norms.pre == "gain":
        shapes["attn_norm.weight"] = shapes["ffn_norm.weight"] = (width,)
    if config.residual.scheme in ("deepnorm", "sandwich_outer", "sandwich_branch") and config.norms.post == "gain":
        shapes["attn_post_norm.weight"] = shapes["ffn_post_norm.weight"] = (width,)
    if config.norms.block == "gain":
        shapes["block_norm.weight"] = (width,)

    shapes["attn.q_proj.weight"] = (query, width)
    shapes["attn.k_proj.weight"] = (key, width)
    shapes["attn.v_proj.weight"] = (key, width)
    shapes["attn.o_proj.weight"] = (width, query)
    if config.attention.output_gate:
        shapes["attn.g_proj.weight"] = (query, width)
    if config.attention.qk_norm == "gain":
        shapes["attn.q_norm.weight"] = shapes["attn.k_norm.weight"] = (head_width,)

    kind = config.feed_forward.core if part == "core" else config.feed_forward.outer
    if kind == "dense":
        inner = config.feed_forward.intermediate
        if config.feed_forward.activation == "swiglu":
            shapes["mlp.gate_proj.weight"] = (inner, width)
        shapes["mlp.up_proj.weight"] = (inner, width)
        shapes["mlp.down_proj.weight"] = (width, inner)
    else:
        shapes.update(moe_shapes(config, part, stored_loops))
    return {prefix + name: shape for name, shape in shapes.items()}


def moe_shapes(config, part, stored_loops):
    moe, width = config.moe, config.hidden_size
    experts, inner = moe.n_routed_experts, moe.expert_intermediate
    tied_core = part == "core" and config.tied
    shapes = {}
    for t in range(stored_loops if tied_core and moe.router == "per_loop" else 1):
        shapes[f"moe.routers.{t}.weight"] = (experts, width)
    if tied_core and moe.router == "shared_bias":
        for t in range(stored_loops):
            shapes[f"moe.routers.{t}.bias"] = (experts,)
    per_loop_bias = tied_core and moe.balance_scope == "layer_loop"
    shapes["moe.balance_bias"] = (stored_loops, experts) if per_loop_bias else (experts,)
    shapes["moe.experts.gate_proj.weight"] = (experts, inner, width)
    shapes["moe.experts.up_proj.weight"] = (experts, inner, width)
    shapes["moe.experts.down_proj.weight"] = (experts, width, inner)
    if moe.n_shared_experts > 0:
        stacked = moe.n_shared_experts * inner
        shapes["moe.shared.gate_proj.weight"] = (stacked, width)
        shapes["moe.shared.up_proj.weight"] = (stacked, width)
        shapes["moe.shared.down_proj.weight"] = (width, stacked)
    if config.norms.moe_out == "gain":
        shapes["moe.out_norm.weight"] = (width,)
    return shapes


def all_shapes(config, stored_loops):
    """name -> shape of every tensor of a model that stores `stored_loops` loops, balance biases included."""
    width, lanes = config.hidden_size, config.hyper_connections.lanes
    shapes = {"embed_tokens.weight": (config.vocab_size, width)}
    if not config.embedding.tied:
        shapes["lm_head.weight"] = (config.vocab_size, width)
    for place, name in (("embedding", "embed_norm"), ("loop_end", "loop_norm"), ("final", "final_norm")):
        if getattr(config.norms, place) == "gain":
            shapes[name + ".weight"] = (width,)
    if config.reinjection.kind == "linear":
        shapes["reinject.weight"] = (width, 2 * width)
    if config.reinjection.kind == "decay":
        shapes["reinject.weight"] = (width, width)
        shapes["reinject.dt_bias"] = shapes["reinject.A_log"] = (width,)
    if config.reinjection.kind == "boundary" and config.reinjection.alpha_learned:
        shapes["reinject.alpha"] = (1,)
    if lanes > 0:
        shapes["hyper.read"] = shapes["hyper.write"] = (stored_loops, lanes)
        shapes["hyper.mix"] = (stored_loops, lanes, lanes)
    if config.conditioning == "embedding":
        shapes["condition.embedding"] = (stored_loops, width)
    if config.conditioning == "modulation":
        inner = config.conditioning_width
        shapes["condition.in.weight"] = (inner, width)
        shapes["condition.loop"] = (stored_loops, inner)
        shapes["condition.out.weight"] = (2 * width, inner)
    for part in ("prelude", "core", "coda"):
        for prefix in layer_prefixes(config, part, stored_loops):
            shapes.update(layer_shapes(config, prefix, part, stored_loops))
    return dict(sorted(shapes.items()))


def is_trained(name):
    return not name.endswith("moe.balance_bias")
