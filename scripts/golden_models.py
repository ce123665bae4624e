# /// script
# requires-python = ">=3.10"
# dependencies = ["torch==2.15.0", "transformers==5.24.0", "safetensors>=0.5", "tokenizers>=0.22", "gguf>=0.19"]
# ///
"""Makes the tiny models of every architecture and the logits that `transformers` computes with them.

    python scripts/golden_models.py [--models models/tiny] [--golden tests/golden/models] [--only NAME ...]

Writes, for every entry of `MODELS`, or for those that are named:

  models/tiny/<name>/            config.json as the hub has it, model.safetensors (f32), tokenizer files
  tests/golden/models/<name>.json         where the logits come from, the token ids, what is in force
  tests/golden/models/<name>.safetensors  `0`, `1`, ...: logits of each sequence, f32 [tokens, vocab]

The weights are random but seeded by each tensor's name, so running the script again gives the same bytes; the
versions that made a model are in its json.
A feature that does not change the logits proves nothing, so each one (rope scaling, sliding window, biases,
norms of queries and keys, ...) is switched off in turn and must move some logit by `IN_FORCE` at least.

It makes no model that can translate or judge: the text of these models is noise.
"""

import argparse
import copy
import json
import math
import re
import shutil
import tempfile
import zlib
from pathlib import Path

import tokenizers
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM

SEED = 20240607
VOCAB = 320
LENGTHS = (17, 112)  # tokens of each test sequence; the second is past every window and original context
IN_FORCE = 0.05  # a feature switched off must move a logit by this much
HEADROOM = 2e-5  # f32 against f64 of the same model: rounding must stay far below the tests' 1e-4
EAGER = {"attn_implementation": "eager", "experts_implementation": "eager"}
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]  # ids 317, 318, 319
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

# What every config.json says; an entry of MODELS overrides and adds.
COMMON = {
    "torch_dtype": "float32",
    "vocab_size": VOCAB,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.02,
    "bos_token_id": VOCAB - 3,
    "eos_token_id": VOCAB - 1,
    "use_cache": True,
    "attention_dropout": 0.0,
}
GATED = {"hidden_act": "silu", "rms_norm_eps": 1e-6}
WIDE = {"hidden_size": 64, "intermediate_size": 64}  # head_dim = hidden / heads = 16
NARROW = {"hidden_size": 32, "intermediate_size": 64}

# name -> (config.json, {feature: the config with it switched off, as overrides, or a function on the model})
MODELS = {}


def model(name, config, **off):
    MODELS[name] = ({**COMMON, **config}, off)


def decoder(name, model_type, *bases):
    """The settings of `bases`, and the class that reads them."""
    merged = {key: value for base in bases for key, value in base.items()}
    return {**merged, "architectures": [f"{name}ForCausalLM"], "model_type": model_type}


def weights(suffix, value):
    """Switches off what lives in weights: sets every parameter whose name ends so to `value`."""

    def apply(net):
        hit = [p for n, p in net.named_parameters() if n.endswith(suffix)]
        assert hit, suffix
        for p in hit:
            p.data.fill_(value)

    return apply


def buffers(suffix, value):
    """The same of buffers that files hold."""

    def apply(net):
        hit = [b for n, b in net.named_buffers() if n.endswith(suffix)]
        assert hit, suffix
        for b in hit:
            b.data.fill_(value)

    return apply


# Llama 3's bands at head_dim 16: wavelengths 6 (kept), 32 (blended), 167 and more (divided by the factor).
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
model(
    "llama",
    {
        **decoder("Llama", "llama", GATED, WIDE),
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "rope_scaling": LLAMA3_ROPE,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
    },
    rope_scaling={"rope_scaling": None},
    low_freq_factor={"rope_scaling.low_freq_factor": 3.0},
)
model(
    "smollm2",
    {
        **decoder("Llama", "llama", GATED, WIDE),
        "rms_norm_eps": 1e-5,
        "num_key_value_heads": 4,
        "rope_theta": 100000.0,
        "rope_scaling": None,
        "tie_word_embeddings": True,
    },
    rope_theta={"rope_theta": 10000.0},
)
# As Mistral-Nemo: heads * head_dim (64) is not the hidden size (32).
model(
    "mistral",
    {
        **decoder("Mistral", "mistral", GATED, NARROW),
        "head_dim": 16,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1000000.0,
        "sliding_window": None,
        "tie_word_embeddings": False,
    },
    rope_theta={"rope_theta": 10000.0},
    full_attention={"sliding_window": 24},
)
# `sliding_window` is there, as in the hub's files, and must be ignored: `use_sliding_window` is false.
QWEN2 = {
    **decoder("Qwen2", "qwen2", GATED, WIDE),
    "rope_theta": 1000000.0,
    "sliding_window": 24,
    "max_window_layers": 0,
    "use_sliding_window": False,
}
model(
    "qwen2",
    {**QWEN2, "tie_word_embeddings": True},
    q_bias=weights("q_proj.bias", 0.0),
    k_bias=weights("k_proj.bias", 0.0),
    v_bias=weights("v_proj.bias", 0.0),
    full_attention={"use_sliding_window": True},
)
# As the README of Qwen2.5 asks: `type`, and the context the model was trained for.
model(
    "qwen2-yarn",
    {
        **QWEN2,
        "tie_word_embeddings": False,
        "rope_theta": 10000.0,
        "max_position_embeddings": 32,
        "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
    },
    rope_scaling={"rope_scaling": None},
    attention_factor={"rope_scaling.attention_factor": 1.0},
)
model(
    "qwen3",
    {
        **decoder("Qwen3", "qwen3", GATED, NARROW),
        "head_dim": 32,
        "rope_theta": 1000000.0,
        "rope_scaling": None,
        "attention_bias": False,
        "sliding_window": None,
        "max_window_layers": 2,
        "use_sliding_window": False,
        "tie_word_embeddings": True,
    },
    q_norm=weights("q_norm.weight", 1.0),
    k_norm=weights("k_norm.weight", 1.0),
)
# Layers: sliding, full, sliding, full. The linear scaling is for the full layers' base alone.
model(
    "gemma3",
    {
        **decoder("Gemma3", "gemma3_text", NARROW),
        "num_hidden_layers": 4,
        "head_dim": 16,
        "hidden_activation": "gelu_pytorch_tanh",
        "rms_norm_eps": 1e-6,
        "query_pre_attn_scalar": 24,
        "rope_theta": 1000000.0,
        "rope_local_base_freq": 10000.0,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "sliding_window": 24,
        "sliding_window_pattern": 2,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "attention_bias": False,
        "tie_word_embeddings": True,
    },
    sliding_window={"sliding_window": 512},
    full_layers={"layer_types": ["sliding_attention"] * 4},
    rope_scaling={"rope_scaling": None},
    local_base={"rope_local_base_freq": 1000000.0},
    query_pre_attn_scalar={"query_pre_attn_scalar": 16},
    q_norm=weights("q_norm.weight", 0.0),
    k_norm=weights("k_norm.weight", 0.0),
)

# The second layer is dense. Experts are written one by one, as in the hub's files.
model(
    "qwen3-moe",
    {
        **decoder("Qwen3Moe", "qwen3_moe", GATED, NARROW),
        "num_hidden_layers": 3,
        "head_dim": 16,
        "rope_theta": 1000000.0,
        "rope_scaling": None,
        "attention_bias": False,
        "sliding_window": None,
        "max_window_layers": 3,
        "use_sliding_window": False,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [1],
        "moe_intermediate_size": 16,
        "num_experts": 8,
        "num_experts_per_tok": 3,
        "norm_topk_prob": True,
        "output_router_logits": False,
        "router_aux_loss_coef": 0.001,
        "tie_word_embeddings": False,
    },
    norm_topk_prob={"norm_topk_prob": False},
    three_experts={"num_experts_per_tok": 2},
    router=weights("mlp.gate.weight", 0.0),
    k_norm=weights("k_norm.weight", 1.0),
)

# A dense layer first, experts in four groups of two; the bias of the router moves the choice. As in GLM-4.6, heads have
# norms. The file has a layer more, which predicts further tokens and is not computed.
model(
    "glm4-moe",
    {
        **decoder("Glm4Moe", "glm4_moe", GATED, NARROW),
        "num_hidden_layers": 3,
        "head_dim": 16,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1000000.0,
        "rope_scaling": None,
        "partial_rotary_factor": 0.5,
        "attention_bias": True,
        "use_qk_norm": True,
        "moe_intermediate_size": 16,
        "n_routed_experts": 8,
        "n_shared_experts": 2,
        "num_experts_per_tok": 3,
        "n_group": 4,
        "topk_group": 2,
        "norm_topk_prob": True,
        "routed_scaling_factor": 2.5,
        "first_k_dense_replace": 1,
        "num_nextn_predict_layers": 1,
        "tie_word_embeddings": False,
    },
    all_rotated={"partial_rotary_factor": 1.0},
    q_bias=weights("q_proj.bias", 0.0),
    v_bias=weights("v_proj.bias", 0.0),
    correction_bias=buffers("e_score_correction_bias", 0.0),
    groups={"n_group": 1, "topk_group": 1},
    norm_topk_prob={"norm_topk_prob": False},
    routed_scaling_factor={"routed_scaling_factor": 1.0},
    shared_expert=weights("shared_experts.down_proj.weight", 0.0),
    q_norm=weights("q_norm.weight", 1.0),
)

# Layers: sliding, full, sliding, full. The caps are low enough to bend scores and logits of this size.
model(
    "gemma2",
    {
        **decoder("Gemma2", "gemma2", NARROW),
        "num_hidden_layers": 4,
        "head_dim": 16,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_act": "gelu_pytorch_tanh",
        "rms_norm_eps": 1e-6,
        "query_pre_attn_scalar": 24,
        "rope_theta": 10000.0,
        "sliding_window": 24,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 6.0,
        "attention_bias": False,
        "cache_implementation": "hybrid",
        "tie_word_embeddings": True,
    },
    sliding_window={"sliding_window": 512},
    full_layers={"layer_types": ["full_attention"] * 4},
    score_softcap={"attn_logit_softcapping": None},
    logit_softcap={"final_logit_softcapping": None},
    query_pre_attn_scalar={"query_pre_attn_scalar": 16},
)
# With the settings of the other models of its class, as in the hub's files.
model(
    "hunyuan",
    {
        **decoder("HunYuanDenseV1", "hunyuan_v1_dense", GATED, NARROW),
        "head_dim": 16,
        "attention_head_dim": 16,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "rope_scaling": {
            "alpha": 1000.0,
            "beta_fast": 32,
            "beta_slow": 1,
            "factor": 1.0,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "type": "dynamic",
        },
        "attention_bias": False,
        "mlp_bias": False,
        "norm_type": "rms",
        "num_experts": 1,
        "use_cla": False,
        "use_qk_norm": True,
        "use_rotary_pos_emb": True,
        "tie_word_embeddings": True,
    },
    alpha={"rope_scaling": None},
    q_norm=weights("query_layernorm.weight", 1.0),
    k_norm=weights("key_layernorm.weight", 1.0),
)
# The output's switch is of its own; heads * head_dim (64) is not the hidden size (32), as in the 36B file.
model(
    "seed-oss",
    {
        **decoder("SeedOss", "seed_oss", GATED, NARROW),
        "head_dim": 16,
        "rope_theta": 10000000.0,
        "rope_scaling": {"rope_type": "default"},
        "tie_word_embeddings": False,
        "attention_bias": True,
        "attention_out_bias": False,
        "mlp_bias": False,
        "residual_dropout": 0.1,
        "attention_dropout": 0.1,
    },
    q_bias=weights("q_proj.bias", 0.0),
    v_bias=weights("v_proj.bias", 0.0),
    rope_theta={"rope_theta": 10000.0},
)
# The second sequence is past two of the 48 positions of pretraining.
MINISTRAL_ROPE = {
    "type": "yarn",
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 16.0,
    "original_max_position_embeddings": 48,
    "max_position_embeddings": 768,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale_all_dim": 1.0,
    "mscale": 1.0,
    "llama_4_scaling_beta": 0.5,
}
model(
    "ministral3",
    {
        **decoder("Ministral3", "ministral3", GATED, NARROW),
        "head_dim": 16,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 768,
        "rope_parameters": MINISTRAL_ROPE,
        "sliding_window": None,
        "tie_word_embeddings": True,
    },
    growth={"rope_parameters.llama_4_scaling_beta": 0.0},
    yarn={"rope_parameters.factor": 1.0},
    mscale={"rope_parameters.mscale": 4.0},
)


# Latent attention; the rotated pairs of each head are neighbours. A dense layer first.
LATENT = {
    **GATED,
    **NARROW,
    "num_hidden_layers": 3,
    "num_key_value_heads": 4,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 24,
    "moe_intermediate_size": 16,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "aux_loss_alpha": 0.001,
    "seq_aux": True,
    "rope_theta": 10000,
    "attention_bias": False,
    "tie_word_embeddings": False,
}
OF_DEEPSEEK = ("moe_layer_freq", "aux_loss_alpha", "seq_aux")
LATENT_ROPE = {
    "type": "yarn",
    "factor": 40,
    "original_max_position_embeddings": 64,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 0.707,
    "mscale_all_dim": 0.707,
}
OFF_LATENT = {
    "yarn": {"rope_scaling": None},
    "norm_of_rows": weights("kv_a_layernorm.weight", 1.0),
    "keys_and_values": weights("kv_b_proj.weight", 0.0),
    "shared_expert": weights("shared_experts.down_proj.weight", 0.0),
    "three_experts": {"num_experts_per_tok": 2},
}
model(
    "deepseek-v2-lite",
    {
        **decoder("DeepseekV2", "deepseek_v2", LATENT),
        "q_lora_rank": None,
        "rope_scaling": LATENT_ROPE,
        "scoring_func": "softmax",
        "topk_method": "greedy",
        "n_group": 1,
        "topk_group": 1,
        "norm_topk_prob": False,
        "routed_scaling_factor": 1.0,
    },
    **OFF_LATENT,
    mscale={"rope_scaling.mscale": 1.0},
    factor_of_scores={"rope_scaling.mscale": None, "rope_scaling.mscale_all_dim": None},
)
# The best of each group's experts chooses the groups.
model(
    "deepseek-v2",
    {
        **decoder("DeepseekV2", "deepseek_v2", LATENT),
        "q_lora_rank": 24,
        "rope_scaling": {**LATENT_ROPE, "factor": 8, "mscale": 1.0, "mscale_all_dim": 1.0},
        "scoring_func": "softmax",
        "topk_method": "group_limited_greedy",
        "n_group": 4,
        "topk_group": 2,
        "norm_topk_prob": False,
        "routed_scaling_factor": 2.0,
    },
    **OFF_LATENT,
    groups={"topk_method": "greedy"},
    routed_scaling_factor={"routed_scaling_factor": 1.0},
    norm_of_queries=weights("q_a_layernorm.weight", 1.0),
)
# With biases, which no published file has, and tensors of a layer that predicts further tokens.
model(
    "deepseek-v3",
    {
        **decoder("DeepseekV3", "deepseek_v3", LATENT),
        "q_lora_rank": 24,
        "rope_scaling": {**LATENT_ROPE, "factor": 16, "mscale": 1.0, "mscale_all_dim": 0.8},
        "attention_bias": True,
        "ep_size": 1,
        "num_nextn_predict_layers": 1,
        "scoring_func": "sigmoid",
        "topk_method": "noaux_tc",
        "n_group": 4,
        "topk_group": 2,
        "norm_topk_prob": True,
        "routed_scaling_factor": 2.5,
    },
    **OFF_LATENT,
    interleaved={"rope_interleave": False},
    correction_bias=buffers("e_score_correction_bias", 0.0),
    groups={"n_group": 1, "topk_group": 1},
    norm_topk_prob={"norm_topk_prob": False},
    routed_scaling_factor={"routed_scaling_factor": 1.0},
    norm_of_queries=weights("q_a_layernorm.weight", 1.0),
    bias_of_queries=weights("q_a_proj.bias", 0.0),
    bias_of_rows=weights("kv_a_proj_with_mqa.bias", 0.0),
    bias_of_outputs=weights("o_proj.bias", 0.0),
)
# As GLM 4.7 Flash: values wider than the keys' plain part, no groups, epsilon of its own for the norms of compressed rows.
model(
    "glm4-moe-lite",
    {
        **decoder("Glm4MoeLite", "glm4_moe_lite", {k: v for k, v in LATENT.items() if k not in OF_DEEPSEEK}),
        "rms_norm_eps": 1e-5,
        "qk_nope_head_dim": 24,
        "v_head_dim": 32,
        "q_lora_rank": 24,
        "rope_theta": 1000000,
        "rope_scaling": None,
        "partial_rotary_factor": 1.0,
        "topk_method": "noaux_tc",
        "n_shared_experts": 1,
        "n_group": 1,
        "topk_group": 1,
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.8,
        "num_nextn_predict_layers": 1,
    },
    rope_theta={"rope_theta": 10000},
    norm_of_rows=weights("kv_a_layernorm.weight", 1.0),
    correction_bias=buffers("e_score_correction_bias", 0.0),
    norm_topk_prob={"norm_topk_prob": False},
    routed_scaling_factor={"routed_scaling_factor": 1.0},
    dense_layers={"mlp_layer_types": ["dense", "sparse", "sparse"], "num_experts_per_tok": 2},
)

HYBRID = {
    **GATED,
    **NARROW,
    "num_hidden_layers": 3,
    "layer_types": ["linear_attention", "linear_attention", "full_attention"],
    "head_dim": 32,
    "attention_bias": False,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000000.0,
        "partial_rotary_factor": 0.25,
    },
    "tie_word_embeddings": False,
}
MROPE = {"mrope_interleaved": True, "mrope_section": [2, 1, 1]}
OF_EXPERTS = {
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 32,
    "num_experts": 8,
    "num_experts_per_tok": 3,
    "output_router_logits": False,
    "router_aux_loss_coef": 0.001,
}
OFF_HYBRID = {
    "decay": weights("A_log", -30.0),
    "dt_bias": weights("dt_bias", 0.0),
    "norm_of_states": weights("linear_attn.norm.weight", 1.0),
    "q_norm": weights("q_norm.weight", 0.0),
    "all_rotated": {"rope_parameters.partial_rotary_factor": 1.0},
}

# Two layers of Gated DeltaNet, four value heads over two key heads, and one of gated attention.
model(
    "qwen3-5",
    {
        **decoder("Qwen3_5", "qwen3_5_text", HYBRID),
        "rope_parameters": {**HYBRID["rope_parameters"], **MROPE},
    },
    **OFF_HYBRID,
)
model(
    "qwen3-5-moe",
    {
        **decoder("Qwen3_5Moe", "qwen3_5_moe_text", HYBRID, OF_EXPERTS),
        "rope_parameters": {**HYBRID["rope_parameters"], **MROPE},
    },
    **OFF_HYBRID,
    shared_expert=weights("shared_expert.down_proj.weight", 0.0),
    gate_of_shared_expert=weights("shared_expert_gate.weight", 0.0),
    three_experts={"num_experts_per_tok": 2},
)
# The second layer is dense.
model(
    "qwen3-next",
    {
        **decoder("Qwen3Next", "qwen3_next", HYBRID, OF_EXPERTS),
        "decoder_sparse_step": 1,
        "mlp_only_layers": [1],
        "norm_topk_prob": True,
    },
    **OFF_HYBRID,
    shared_expert=weights("shared_expert.down_proj.weight", 0.0),
    norm_topk_prob={"norm_topk_prob": False},
)

# Full layers have one head of keys and values, 32 wide and both at once, a quarter of it rotated; sliding ones two of 16.
GEMMA4 = {
    **NARROW,
    "hidden_activation": "gelu_pytorch_tanh",
    "rms_norm_eps": 1e-6,
    "num_hidden_layers": 4,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
    "head_dim": 16,
    "global_head_dim": 32,
    "num_global_key_value_heads": 1,
    "attention_k_eq_v": True,
    "sliding_window": 24,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0},
    },
    "final_logit_softcapping": 5.0,
    "hidden_size_per_layer_input": 0,
    "num_kv_shared_layers": 0,
    "tie_word_embeddings": True,
}
OFF_GEMMA4 = {
    "scalars_of_layers": buffers("layer_scalar", 1.0),
    "all_rotated": {"rope_parameters.full_attention.partial_rotary_factor": 1.0},
    "window": {"sliding_window": 512},
    "softcap": {"final_logit_softcapping": None},
    "q_norm": weights("q_norm.weight", 1.0),
}
model(
    "gemma4",
    decoder("Gemma4", "gemma4_text", GEMMA4),
    **OFF_GEMMA4,
)
# Values of their own in all layers, and eight experts beside each dense half.
model(
    "gemma4-moe",
    {
        **decoder("Gemma4", "gemma4_text", GEMMA4),
        "num_hidden_layers": 3,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
        "attention_k_eq_v": False,
        "enable_moe_block": True,
        "num_experts": 8,
        "top_k_experts": 3,
        "moe_intermediate_size": 16,
    },
    **OFF_GEMMA4,
    factors_of_experts=weights("per_expert_scale", 1.0),
    scale_of_router=weights("router.scale", 1.0),
    three_experts={"top_k_experts": 2},
    norm_of_experts=weights("post_feedforward_layernorm_2.weight", 0.0),
)
# Sinks, a window on the first layer, biases everywhere; the experts' weights are ones that MXFP4 holds.
model(
    "gpt-oss",
    {
        **decoder("GptOss", "gpt_oss", WIDE),
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "head_dim": 16,
        "attention_bias": True,
        "num_local_experts": 8,
        "num_experts_per_tok": 3,
        "experts_per_token": 3,
        "sliding_window": 24,
        "layer_types": ["sliding_attention", "full_attention"],
        "swiglu_limit": 7.0,
        "rope_theta": 150000.0,
        "initial_context_length": 64,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 8.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "original_max_position_embeddings": 64,
            "truncate": False,
        },
        "output_router_logits": False,
        "router_aux_loss_coef": 0.9,
        "tie_word_embeddings": False,
    },
    sinks=weights("sinks", -30.0),
    window={"sliding_window": 512},
    limit={"swiglu_limit": 100.0},
    bias_of_router=weights("router.bias", 0.0),
    bias_of_gates=weights("gate_up_proj_bias", 0.0),
    bias_of_downs=weights("down_proj_bias", 0.0),
    bias_of_queries=weights("q_proj.bias", 0.0),
    bias_of_outputs=weights("o_proj.bias", 0.0),
    yarn={"rope_scaling.factor": 1.0},
    cut_bounds={"rope_scaling.truncate": True},
    three_experts={"num_experts_per_tok": 2, "experts_per_token": 2},
)

# The fourth layer attends without positions.
model(
    "smollm3",
    {
        **decoder("SmolLM3", "smollm3", GATED, NARROW),
        "pad_token_id": VOCAB - 3,
        "num_hidden_layers": 4,
        "head_dim": 16,
        "layer_types": ["full_attention"] * 4,
        "no_rope_layer_interval": 4,
        "no_rope_layers": [1, 1, 1, 0],
        "rope_theta": 5000000.0,
        "rope_scaling": None,
        "sliding_window": None,
        "use_sliding_window": False,
        "max_window_layers": 28,
        "pretraining_tp": 2,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
    },
    no_rope_layers={"no_rope_layers": [1, 1, 1, 1]},
    rope_theta={"rope_theta": 10000.0},
)
model(
    "olmo2",
    {
        **decoder("Olmo2", "olmo2", GATED, NARROW),
        "head_dim": 16,
        "rope_theta": 500000.0,
        "rope_scaling": None,
        "attention_bias": False,
        "tie_word_embeddings": False,
    },
    q_norm=weights("q_norm.weight", 1.0),
    k_norm=weights("k_norm.weight", 1.0),
    norm_of_halves=weights("post_feedforward_layernorm.weight", 1.0),
)
# Only the full layer has YaRN.
model(
    "olmo3",
    {
        **decoder("Olmo3", "olmo3", GATED, NARROW),
        "num_hidden_layers": 4,
        "head_dim": 16,
        "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
        "sliding_window": 24,
        "rope_theta": 500000.0,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 8.0,
            "attention_factor": 1.2079441541679836,
            "beta_fast": 32,
            "beta_slow": 1,
            "original_max_position_embeddings": 64,
        },
        "attention_bias": False,
        "tie_word_embeddings": False,
    },
    window={"sliding_window": 512},
    yarn={"rope_scaling": None},
    q_norm=weights("q_norm.weight", 1.0),
)
GRANITE = {
    **GATED,
    **WIDE,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000000.0,
    "rope_scaling": None,
    "attention_bias": False,
    "attention_multiplier": 0.125,
    "embedding_multiplier": 12,
    "residual_multiplier": 0.22,
    "logits_scaling": 1.25,
    "tie_word_embeddings": True,
}
OFF_GRANITE = {
    "attention_multiplier": {"attention_multiplier": 0.25},
    "embedding_multiplier": {"embedding_multiplier": 1},
    "residual_multiplier": {"residual_multiplier": 1},
    "logits_scaling": {"logits_scaling": 1},
}
model(
    "granite",
    {**decoder("Granite", "granite", GRANITE), "mlp_bias": False},
    **OFF_GRANITE,
)
# As Granite 4 without layers of Mamba: gate and up in one matrix of a width of its own.
model(
    "granite-hybrid",
    {
        **decoder("GraniteMoeHybrid", "granitemoehybrid", GRANITE),
        "intermediate_size": 96,
        "shared_intermediate_size": 48,
        "layer_types": ["attention"] * 2,
        "position_embedding_type": "rope",
        "normalization_function": "rmsnorm",
        "init_method": "mup",
        "num_local_experts": 0,
        "num_experts_per_tok": 0,
        "output_router_logits": False,
        "router_aux_loss_coef": 0.01,
        "mamba_n_heads": 4,
        "mamba_n_groups": 1,
        "mamba_d_state": 16,
        "mamba_d_head": 32,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
        "mamba_chunk_size": 256,
        "mamba_conv_bias": True,
        "mamba_proj_bias": False,
    },
    **OFF_GRANITE,
    rope={"position_embedding_type": None},
)
model(
    "glm4",
    {
        **decoder("Glm4", "glm4", GATED, NARROW),
        "pad_token_id": VOCAB - 3,
        "head_dim": 16,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5,
        "attention_bias": True,
        "tie_word_embeddings": False,
    },
    all_rotated={"partial_rotary_factor": 1.0},
    k_bias=weights("k_proj.bias", 0.0),
    norm_of_attention=weights("post_self_attn_layernorm.weight", 1.0),
    norm_of_mlp=weights("post_mlp_layernorm.weight", 1.0),
)
# The full layer attends without positions.
model(
    "exaone4",
    {
        **decoder("Exaone4", "exaone4", GATED, NARROW),
        "num_hidden_layers": 4,
        "head_dim": 16,
        "rms_norm_eps": 1e-5,
        "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
        "sliding_window": 24,
        "sliding_window_pattern": "LLLG",
        "rope_theta": 1000000.0,
        "rope_scaling": {**LLAMA3_ROPE, "factor": 16.0},
        "tie_word_embeddings": False,
    },
    window={"sliding_window": 512},
    rope_scaling={"rope_scaling": None},
    q_norm=weights("q_norm.weight", 1.0),
    k_norm=weights("k_norm.weight", 1.0),
)
# Both sequences are within the 128 positions of pretraining, where the short factors are in force.
model(
    "phi3",
    {
        **decoder("Phi3", "phi3", GATED, WIDE),
        "pad_token_id": VOCAB - 3,
        "rms_norm_eps": 1e-5,
        "original_max_position_embeddings": 128,
        "partial_rotary_factor": 0.75,
        "rope_theta": 10000.0,
        "rope_scaling": {
            "type": "longrope",
            "short_factor": [1.0, 1.1, 1.3, 1.7, 2.5, 4.0],
            "long_factor": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
        },
        "sliding_window": None,
        "embd_pdrop": 0.0,
        "resid_pdrop": 0.0,
        "attention_bias": False,
        "mlp_bias": False,
        "lm_head_bias": False,
        "full_attn_mod": 1,
        "interpolate_factor": 1,
        "tie_word_embeddings": True,
    },
    short_factor={"rope_scaling.short_factor": [1.0] * 6},
    attention_factor={"rope_scaling.attention_factor": 1.0},
    short_context={"max_position_embeddings": 128},
)
model(
    "mixtral",
    {
        **decoder("Mixtral", "mixtral", GATED, NARROW),
        "head_dim": 16,
        "intermediate_size": 16,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1000000.0,
        "sliding_window": None,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "output_router_logits": False,
        "router_aux_loss_coef": 0.02,
        "router_jitter_noise": 0.0,
        "tie_word_embeddings": False,
    },
    two_experts={"num_experts_per_tok": 1},
    router=weights("mlp.gate.weight", 0.0),
)
model(
    "ministral",
    {
        **decoder("Ministral", "ministral", GATED, NARROW),
        "head_dim": 16,
        "rms_norm_eps": 1e-5,
        "layer_types": ["full_attention", "sliding_attention"],
        "sliding_window": 24,
        "rope_theta": 100000000.0,
        "tie_word_embeddings": False,
    },
    window={"sliding_window": 512},
)
model(
    "apertus",
    {
        **decoder("Apertus", "apertus", NARROW),
        "head_dim": 16,
        "hidden_act": "xielu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 12000000.0,
        "rope_scaling": LLAMA3_ROPE,
        "attention_bias": False,
        "mlp_bias": False,
        "qk_norm": True,
        "post_norm": False,
        "tie_word_embeddings": False,
    },
    alpha_above_0=weights("act_fn.alpha_p", 0.0),
    alpha_below_0=weights("act_fn.alpha_n", 0.0),
    beta=buffers("act_fn.beta", 0.0),
    q_norm=weights("q_norm.weight", 1.0),
)
COHERE = {
    **WIDE,
    "hidden_act": "silu",
    "layer_norm_eps": 1e-5,
    "attention_bias": False,
    "logit_scale": 0.8,
    "tie_word_embeddings": True,
}
model(
    "cohere",
    {
        **decoder("Cohere", "cohere", COHERE),
        "rope_theta": 8000000.0,
        "use_qk_norm": True,
    },
    logit_scale={"logit_scale": 1.0},
    use_qk_norm={"use_qk_norm": False},
    q_norm=weights("q_norm.weight", 1.0),
)
# The full layer attends without positions.
model(
    "cohere2",
    {
        **decoder("Cohere2", "cohere2", COHERE),
        "intermediate_size": 32,
        "num_hidden_layers": 4,
        "cache_implementation": "hybrid",
        "head_dim": 16,
        "layer_switch": 4,
        "order_of_interleaved_layers": "local_attn_first",
        "position_embedding_type": "rope_gptj",
        "rope_scaling": None,
        "rope_theta": 50000,
        "rotary_pct": 1.0,
        "sliding_window": 24,
        "sliding_window_pattern": 4,
        "use_embedding_sharing": True,
        "use_gated_activation": True,
        "use_parallel_block": True,
        "use_parallel_embedding": True,
        "use_qk_norm": False,
    },
    window={"sliding_window": 512},
    full_layer={"layer_types": ["sliding_attention"] * 4},
    logit_scale={"logit_scale": 1.0},
)

FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def four_bits(values):
    """Rows of values in MXFP4: codes `[.., k / 32, 32]` and exponents `[.., k / 32]`."""
    blocks = values.unflatten(-1, (-1, 32))
    exponents = torch.floor(torch.log2(blocks.abs().amax(-1).clamp_min(2.0**-20))) - 2
    scaled = blocks / 2.0 ** exponents[..., None]
    codes = (scaled[..., None] - FP4).abs().argmin(-1)
    return codes, (exponents + 127).to(torch.uint8)


def as_floats(codes, exponents):
    return (FP4[codes] * 2.0 ** (exponents.float()[..., None] - 127)).flatten(-2)


def fill(net):
    """Seeded weights: matrices keep the size of what passes through, norms and biases are not trivial."""
    plus_one = any(family in type(net).__name__ for family in ("Gemma2", "Gemma3", "Qwen3_5", "Qwen3Next"))
    for name, p in net.named_parameters():
        g = torch.Generator().manual_seed(SEED + zlib.crc32(name.encode()))
        draw = torch.randn(p.shape, generator=g, dtype=torch.float32)
        if name.endswith(("norm.weight", "norm_1.weight", "norm_2.weight")):
            centre = 0.0 if plus_one and not name.endswith("linear_attn.norm.weight") else 1.0
            p.data = centre + 0.25 * draw
            if "Gemma4" in type(net).__name__ and name.endswith("q_norm.weight"):
                p.data *= 0.4  # scores are not scaled
        elif name.endswith("bias"):
            p.data = 0.5 * draw
        elif name.endswith(("router.scale", "per_expert_scale")):
            p.data = 1.0 + 0.5 * draw
        elif name.endswith("sinks"):
            p.data = 1.0 + draw
        elif type(net).__name__.startswith("GptOss") and name.endswith(("gate_up_proj", "down_proj")):
            rows = 4.0 / math.sqrt(p.shape[1]) * draw.transpose(1, 2)
            p.data = as_floats(*four_bits(rows)).transpose(1, 2).contiguous()
        elif name.endswith("A_log"):
            p.data = draw - 3.0  # states that outlast the sequences, and some that do not
        elif "embed_tokens" in name or "lm_head" in name:
            p.data = 2.0 / math.sqrt(p.shape[-1]) * draw
        else:
            p.data = 1.1 / math.sqrt(p.shape[-1]) * draw
    for name, b in net.named_buffers():
        if name.endswith("e_score_correction_bias"):
            g = torch.Generator().manual_seed(SEED + zlib.crc32(name.encode()))
            b.data = 0.25 * torch.randn(b.shape, generator=g, dtype=torch.float32)
        if name.endswith("layer_scalar"):
            g = torch.Generator().manual_seed(SEED + zlib.crc32(name.encode()))
            b.data = 0.5 + torch.rand(b.shape, generator=g, dtype=torch.float32)


def stored(net):
    """The tensors of a file: each expert's matrices under a name of their own, where the hub has them so; a tied lm_head
    is not among them."""
    of_files = ("e_score_correction_bias", "layer_scalar", "act_fn.beta", "act_fn.eps")
    is_mixtral = type(net).__name__.startswith("Mixtral")
    tensors = {n: b.data for n, b in net.named_buffers() if n.endswith(of_files)}
    for name, p in net.named_parameters():
        module, _, part = name.partition(".mlp.experts.")
        if type(net).__name__.startswith("GptOss") or part not in ("gate_up_proj", "down_proj"):
            tensors[name.replace("mlp.gate", "block_sparse_moe.gate") if is_mixtral else name] = p.data.contiguous()
            continue
        parts = ("gate_proj", "up_proj") if part == "gate_up_proj" else (part,)
        names = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"} if is_mixtral else {}
        half = "block_sparse_moe" if is_mixtral else "mlp"
        for expert, matrix in enumerate(p.data):
            for of_part, rows in zip(parts, matrix.chunk(len(parts))):
                of_part = names.get(of_part, of_part)
                tensors[f"{module}.{half}.experts.{expert}.{of_part}.weight"] = rows.contiguous()
    return tensors


def write_json(path, value):
    text = json.dumps(value, indent=2, ensure_ascii=False)
    text = re.sub(r"\[[\d,\s]+\]", lambda ids: re.sub(r"\s+", " ", ids[0]), text)  # ids on one line
    path.write_text(text + "\n", encoding="utf-8")


def write_tokenizer(folder):
    """A byte-level BPE as Qwen's, learnt from this script's own text: 256 bytes, 61 merges, 3 controls."""
    tok = Tokenizer(models.BPE())
    split = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB - len(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tok.train_from_iterator([__doc__], trainer)
    tok.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIAL])
    assert tok.get_vocab_size() == VOCAB and tok.token_to_id("<|im_end|>") == VOCAB - 1
    tok.save(str(folder / "tokenizer.json"))
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "added_tokens_decoder": {
                str(tok.token_to_id(s)): {"content": s, "special": True, "normalized": False} for s in SPECIAL
            },
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "add_bos_token": False,
            "chat_template": CHAT_TEMPLATE,
        },
    )


def sequences():
    """The same token ids for every model, any id of the vocabulary, some of them repeated."""
    g = torch.Generator().manual_seed(SEED)
    return [torch.randint(0, VOCAB, (n,), generator=g) for n in LENGTHS]


def load(folder, dtype=torch.float32):
    net = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **EAGER)
    return net.eval()


@torch.no_grad()
def logits(net, ids):
    return net(input_ids=ids[None], use_cache=False).logits[0]


def switched_off(folder, config, off):
    """The model of `folder` without one feature: with other config entries, or with other weights."""
    if callable(off):
        net = load(folder)
        off(net)
        return net
    config = copy.deepcopy(config)
    for key, value in off.items():
        *path, last = key.split(".")
        at = config
        for step in path:
            at = at[step]
        at[last] = value
    with tempfile.TemporaryDirectory() as other:
        shutil.copy(folder / "model.safetensors", other)
        write_json(Path(other) / "config.json", config)
        return load(other)


def make(name, models_dir, golden_dir):
    config, off = MODELS[name]
    folder = models_dir / name
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config)
    write_tokenizer(folder)
    net = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), **EAGER)
    fill(net)
    tensors = stored(net)
    if config.get("num_nextn_predict_layers"):
        last = f"model.layers.{config['num_hidden_layers']}"
        tensors[f"{last}.eh_proj.weight"] = torch.ones(config["hidden_size"], 2 * config["hidden_size"])
        tensors[f"{last}.enorm.weight"] = torch.ones(config["hidden_size"])
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    net, exact, ids = load(folder), load(folder, torch.float64), sequences()
    out = [logits(net, s) for s in ids]
    rounding = max((a - logits(exact, s)).abs().max().item() for a, s in zip(out, ids))
    assert rounding < HEADROOM, f"{name}: f32 is {rounding} from f64"
    std = out[-1].std().item()
    assert 1.0 < std < 4.0, f"{name}: logits have standard deviation {std}"
    moved = {}
    for feature, how in off.items():
        moved[feature] = (logits(switched_off(folder, config, how), ids[-1]) - out[-1]).abs().max().item()
        assert moved[feature] > IN_FORCE, f"{name}: `{feature}` moves no logit by more than {moved[feature]}"

    save_file({str(i): x.contiguous() for i, x in enumerate(out)}, golden_dir / f"{name}.safetensors")
    write_json(
        golden_dir / f"{name}.json",
        {
            "made_by": f"scripts/golden_models.py (seed {SEED})",
            "with": {
                "transformers": transformers.__version__,
                "torch": torch.__version__.split("+")[0],
                "tokenizers": tokenizers.__version__,
            },
            "settings": "attn_implementation eager, float32, no cache",
            "model": f"models/tiny/{name}",
            "logits_std": round(std, 3),
            "max_abs_difference_to_float64": float(f"{rounding:.2g}"),
            "max_abs_difference_when_switched_off": {k: round(v, 3) for k, v in moved.items()},
            "sequences": [s.tolist() for s in ids],
        },
    )
    print(f"{name}: std {std:.2f}, f32-f64 {rounding:.1e}, {moved}")
    return tensors


def copy_texts(source, target):
    target.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(source / name, target)


def make_sharded(source, target, tensors):
    """The same model in two files and an index, split as the hub splits: by size, in the order of the names."""
    copy_texts(source, target)
    names, total = sorted(tensors), sum(t.nbytes for t in tensors.values())
    shards, weight_map, seen = [{}, {}], {}, 0
    for n in names:
        shard = int(seen >= total / 2)
        shards[shard][n] = tensors[n]
        weight_map[n] = f"model-{shard + 1:05}-of-00002.safetensors"
        seen += tensors[n].nbytes
    for i, shard in enumerate(shards):
        save_file(shard, target / f"model-{i + 1:05}-of-00002.safetensors", metadata={"format": "pt"})
    write_json(
        target / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": weight_map}
    )
    ids = sequences()[0]
    assert torch.equal(logits(load(source), ids), logits(load(target), ids)), "the shards are another model"


def make_mxfp4(source, target, tensors):
    """The same weights as gpt-oss is published: experts in MXFP4."""
    copy_texts(source, target)
    config = json.loads((source / "config.json").read_text())
    config["quantization_config"] = {
        "quant_method": "mxfp4",
        "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "lm_head"],
    }
    write_json(target / "config.json", config)
    packed = {}
    for name, tensor in tensors.items():
        if not name.endswith(("gate_up_proj", "down_proj")):
            packed[name] = tensor
            continue
        codes, exponents = four_bits(tensor.transpose(1, 2))
        assert torch.equal(as_floats(codes, exponents), tensor.transpose(1, 2)), "the weights are not held exactly"
        codes = codes.to(torch.uint8)
        packed[f"{name}_blocks"] = (codes[..., ::2] | codes[..., 1::2] << 4).contiguous()
        packed[f"{name}_scales"] = exponents.contiguous()
    save_file(packed, target / "model.safetensors", metadata={"format": "pt"})


def make_gguf(source, target, tensors):
    """The same weights as llama.cpp's converter writes them: experts in MXFP4, everything else in f32."""
    import gguf

    target.mkdir(parents=True, exist_ok=True)
    config = json.loads((source / "config.json").read_text())
    writer = gguf.GGUFWriter(target / "model.gguf", "gpt-oss")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_expert_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_expert_count(config["num_local_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_rope_freq_base(config["rope_theta"])
    rope = config["rope_scaling"]
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(rope["factor"])
    writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
    writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT_OSS, config["num_hidden_layers"])

    def named(name):
        kind = ".bias" if name.endswith("bias") else ".weight"
        module = name.removesuffix(".weight").removesuffix(".bias").removesuffix("_bias")
        return names.get_name(module) + kind

    for name, tensor in tensors.items():
        parts = {name: tensor}
        if "gate_up_proj" in name:
            parts = {name.replace("gate_up", part): tensor[..., i::2] for i, part in enumerate(("gate", "up"))}
        for part, values in parts.items():
            if not part.endswith("_proj"):
                writer.add_tensor(named(part), values.contiguous().numpy())
                continue
            codes, exponents = four_bits(values.transpose(1, 2))
            codes = codes.to(torch.uint8)
            blocks = torch.cat((exponents[..., None], codes[..., :16] | codes[..., 16:] << 4), -1).flatten(-2)
            kind = gguf.GGMLQuantizationType.MXFP4
            writer.add_tensor(named(part), blocks.contiguous().numpy(), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_multimodal(source, target, tensors):
    """The same text model as Qwen3.5 is published: `text_config`, a prefix, a vision tower, a layer that predicts."""
    copy_texts(source, target)
    text = json.loads((source / "config.json").read_text())
    text.pop("architectures")
    layer_types = text.pop("layer_types")
    assert layer_types == ["linear_attention", "linear_attention", "full_attention"]
    write_json(
        target / "config.json",
        {
            "architectures": ["Qwen3_5ForConditionalGeneration"],
            "model_type": "qwen3_5",
            "image_token_id": 1,
            "tie_word_embeddings": False,
            "text_config": {
                **text,
                "full_attention_interval": 3,
                "attn_output_gate": True,
                "mamba_ssm_dtype": "float32",
                "mtp_num_hidden_layers": 1,
                "mtp_use_dedicated_embeddings": False,
            },
            "vision_config": {"model_type": "qwen3_5", "hidden_size": 8, "depth": 1},
        },
    )
    nested = {n.replace("model.", "model.language_model.", 1): t for n, t in tensors.items()}
    nested["model.visual.patch_embed.proj.weight"] = torch.zeros(8, 3, 2, 4, 4)
    nested["mtp.fc.weight"] = torch.zeros(32, 64)
    nested["mtp.layers.0.self_attn.q_proj.weight"] = torch.zeros(256, 32)
    save_file(nested, target / "model.safetensors", metadata={"format": "pt"})


def make_nested(source, target, tensors):
    """The same text model inside Gemma 3's image-and-text layout: `text_config`, a prefix, other parts' tensors."""
    copy_texts(source, target)
    text = json.loads((source / "config.json").read_text())
    text.pop("architectures")
    write_json(
        target / "config.json",
        {
            "architectures": ["Gemma3ForConditionalGeneration"],
            "model_type": "gemma3",
            "eos_token_id": text.pop("eos_token_id"),
            "bos_token_id": text.pop("bos_token_id"),
            "torch_dtype": text.pop("torch_dtype"),
            "mm_tokens_per_image": 4,
            "text_config": text,
            "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 8, "num_hidden_layers": 1},
        },
    )
    nested = {f"language_model.{n}": t for n, t in tensors.items()}
    nested["multi_modal_projector.mm_input_projection_weight"] = torch.zeros(8, 32)
    nested["vision_tower.vision_model.post_layernorm.weight"] = torch.ones(8)
    save_file(nested, target / "model.safetensors", metadata={"format": "pt"})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=Path("models/tiny"))
    parser.add_argument("--golden", type=Path, default=Path("tests/golden/models"))
    parser.add_argument("--only", nargs="+", choices=MODELS, default=[])
    args = parser.parse_args()
    args.golden.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    made = {name: make(name, args.models, args.golden) for name in args.only or MODELS}
    if "mistral" in made:
        make_sharded(args.models / "mistral", args.models / "mistral-sharded", made["mistral"])
    if "gemma3" in made:
        make_nested(args.models / "gemma3", args.models / "gemma3-nested", made["gemma3"])
    if "qwen3-5" in made:
        make_multimodal(args.models / "qwen3-5", args.models / "qwen3-5-multimodal", made["qwen3-5"])
    if "gpt-oss" in made:
        make_mxfp4(args.models / "gpt-oss", args.models / "gpt-oss-mxfp4", made["gpt-oss"])
        make_gguf(args.models / "gpt-oss", args.models / "gpt-oss-gguf", made["gpt-oss"])


if __name__ == "__main__":
    main()
