//! Dense Hunyuan models, those for translation among them: heads of queries and keys have norms behind their
//! rotation, and the rope's base grows by a constant.

use super::{Config, Family, QkNorm, gguf, hf};
use gguf::tensors::{ATTENTION, DENSE, FFN_NORM, HEAD_NORMS, ROPE_FACTORS};

pub const FAMILY: Family = Family {
    name: "hunyuan_v1_dense",
    hf: hf::Schema {
        model_types: &["hunyuan_v1_dense"],
        harmless: OF_OTHER_MODELS,
        only: r#"{"add_classification_head": false, "norm_type": "rms", "num_experts": 1, "use_cla": false,
            "use_mixed_mlp_moe": false, "use_mla": false, "use_qk_norm": true, "use_rotary_pos_emb": true}"#,
        rope: hf::rope::Schema {
            // Written beside `alpha`, and not read.
            keys: &[("dynamic", &["alpha", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"])],
            ..hf::rope::Schema::WHOLE
        },
        config: |settings| {
            let decoder = settings.decoder(settings.windows_alike()?)?;
            Ok(Config { qk_norm: QkNorm::Heads, norm_after_rotation: true, ..decoder })
        },
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "hunyuan-dense",
        tensors: &[ATTENTION, HEAD_NORMS, FFN_NORM, DENSE, ROPE_FACTORS],
        config: |reader| {
            let decoder = reader.decoder(reader.without_windows()?)?;
            Ok(Config { qk_norm: QkNorm::Heads, norm_after_rotation: true, ..decoder })
        },
        ..gguf::Schema::LLAMA_LIKE
    }),
};

/// Settings of the other models of one class for all, and ids.
const OF_OTHER_MODELS: &str = "\
    anyres_pooling_size anyres_vit_max_image_size anyres_vit_two_views attention_head_dim \
    cla_share_factor class_num dense_list group_limited_greedy im_end_id im_newline_id im_start_id \
    kv_lora_rank mask_init_id max_seq_len moe_drop_tokens moe_intermediate_size moe_layer_num_skipped \
    moe_random_routing_dropped_token moe_topk n_group norm_topk_prob num_media_embeds num_shared_expert \
    org_vocab_size pad_id pool_type position_embedding_xdrope q_lora_rank qk_nope_head_dim \
    qk_rope_head_dim routed_scaling_factor skip_cls_token text_end_id text_start_id topk_group \
    v_head_dim video_end_id video_start_id vit_add_patchemb_bias vit_input_resolution vit_mapping_type \
    vit_norm_type vit_patch vit_path vit_remove_prenorm vit_token vit_type vit_used_rms_norm";
