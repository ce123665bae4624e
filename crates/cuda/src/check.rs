//! Checks that a GPU computes what its kernels define, before a run: the tensor core's sums against those of
//! its generation, every product kernel against the plain one, and two seeded layers of a model's width by
//! the kernels of a run against the proven ones. A kernel that is wrong on a card, or a driver that starts
//! one too early, gives other scores without a message; here it gives a difference with the kernel's name.

use std::{ops::Range, sync::LazyLock};

use half::bf16;
use serde_json::Value;

use super::{
    Error, Gpu, KernelSet,
    products::{Kind, Way},
    weights::round_to_bf16,
};
use tribunal_core::digest::hash_of_bits;
use tribunal_model::{
    BLOCK, Config, KvType, Model, Part, Result, Step, Weights,
    families::from_json,
    weights::{Format, seeded::blocks, values},
};

/// A wrong result in words: the kernel, and the place of the first difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference(String);

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Difference {
    /// The difference of two matrices with so many columns, bit for bit.
    fn between(product: &str, n_columns: usize, expected: &[f32], computed: &[f32]) -> Option<Self> {
        let at = expected.iter().zip(computed).position(|(a, b)| a.to_bits() != b.to_bits())?;
        let (row, column, expected, computed) = (at / n_columns, at % n_columns, expected[at], computed[at]);
        Some(Self(format!("{product}: row {row}, column {column} is {computed:e} and must be {expected:e}")))
    }

    /// The difference of values from a known hash.
    fn of_hash(product: &str, known: u64, values: &[f32]) -> Option<Self> {
        let hash = hash_of_bits(values);
        (hash != known).then(|| {
            Self(format!("{product}: the hash of the values is {hash:016x} and must be {known:016x}"))
        })
    }
}

/// Seeded numbers.
struct Draw(u32);

impl Draw {
    fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0 >> 8
    }

    /// A number between -1 and 1.
    fn number(&mut self) -> f32 {
        self.bits() as f32 / (1_u32 << 23) as f32 - 1.0
    }

    /// `bf16` bits of rows of `k` values.
    fn tokens(&mut self, m: usize, k: usize) -> Vec<u16> {
        (0..m * k).map(|_| bf16::from_f32(self.number()).to_bits()).collect()
    }

    /// Rows of `k` values in a format.
    fn rows(&mut self, format: Format, n: usize, k: usize) -> Vec<u8> {
        if format == Format::Bf16 {
            return (0..n * k).flat_map(|_| bf16::from_f32(self.number()).to_le_bytes()).collect();
        }
        blocks(format, self.bits(), n * k / format.block(), 0.5)
    }
}

/// Tiles of a draw, and the hash of their sums by the tensor cores of capability 8, and of 9, 10 and 12
/// (`scripts/golden_mma.py`).
const TENSOR_CORE: [(u32, u64, u64); 3] = [
    (2, 0x6f51_1710_7bd2_a9a1, 0x385c_b86a_1759_2dbb),
    (8, 0x05b2_313f_9f93_37a3, 0x498b_2646_3f9c_7b04),
    (40, 0x791f_5b98_7fcc_690a, 0xeb39_f3ef_f7ba_9b94),
];

/// A small model, and the hash of its logits by a GPU of capability 9: grouped queries, norms of heads.
static SMALL: LazyLock<Value> = LazyLock::new(|| {
    serde_json::json!({"architectures": ["Qwen3ForCausalLM"], "hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 512,
    "max_position_embeddings": 1024, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": true,
    "hidden_act": "silu", "model_type": "qwen3"})
});
const SMALL_LAYERS: u64 = 0xd903_f07a_b9ff_3b6f;

/// A small model with experts, and its hash: sigmoid scores, groups, a correction bias, a shared expert;
/// heads rotated in part.
static SMALL_EXPERTS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::json!({"architectures": ["Glm4MoeForCausalLM"], "hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 512,
    "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "rope_theta": 1e6, "tie_word_embeddings": false,
    "hidden_act": "silu", "model_type": "glm4_moe", "partial_rotary_factor": 0.5, "use_qk_norm": true,
    "attention_bias": false, "moe_intermediate_size": 96, "n_routed_experts": 16, "n_shared_experts": 1,
    "num_experts_per_tok": 4, "n_group": 4, "topk_group": 2, "norm_topk_prob": true, "routed_scaling_factor": 2.5,
    "first_k_dense_replace": 1, "num_nextn_predict_layers": 0})
});
const LAYERS_OF_EXPERTS: u64 = 0x6728_1682_f1af_a492;

/// A hybrid: Gated DeltaNet, then gated attention, each with experts and a gated shared one; heads rotated in
/// part.
static SMALL_HYBRID: LazyLock<Value> = LazyLock::new(|| {
    serde_json::json!({"architectures": ["Qwen3_5MoeForCausalLM"], "hidden_size": 256, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 512,
    "max_position_embeddings": 1024, "rms_norm_eps": 1e-6, "tie_word_embeddings": false, "hidden_act": "silu",
    "model_type": "qwen3_5_moe_text", "attention_bias": false, "layer_types": ["linear_attention", "full_attention"],
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "moe_intermediate_size": 96, "shared_expert_intermediate_size": 64,
    "num_experts": 16, "num_experts_per_tok": 4,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25}})
});
const LAYERS_OF_HYBRID: u64 = 0xbcf8_94cb_dbdb_d2c3;

/// Gemma 4's heads of two sizes, norms of values, and experts beside a dense half.
static SMALL_BESIDE: LazyLock<Value> = LazyLock::new(|| {
    serde_json::json!({"architectures": ["Gemma4ForCausalLM"], "hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 256, "global_head_dim": 512,
    "num_global_key_value_heads": 1, "attention_k_eq_v": true, "sliding_window": 24, "vocab_size": 512,
    "max_position_embeddings": 1024, "rms_norm_eps": 1e-6, "tie_word_embeddings": true, "model_type": "gemma4_text",
    "hidden_activation": "gelu_pytorch_tanh", "layer_types": ["sliding_attention", "full_attention"],
    "final_logit_softcapping": 30.0, "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0,
    "enable_moe_block": true, "num_experts": 16, "top_k_experts": 4, "moe_intermediate_size": 96,
    "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}}})
});
const LAYERS_BESIDE: u64 = 0x6ba6_bbfa_c087_5122;

/// Heads without norms, which are rotated and stored by their product, and gates of so many columns that a
/// card of 132 multiprocessors takes the largest tiles.
static SMALL_FUSED: LazyLock<Value> = LazyLock::new(|| {
    serde_json::json!({"architectures": ["Qwen2ForCausalLM"], "hidden_size": 64, "intermediate_size": 2816,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 512,
    "max_position_embeddings": 1024, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": true,
    "hidden_act": "silu", "model_type": "qwen2"})
});
const LAYERS_FUSED: u64 = 0x5878_93fc_ee10_7975;

/// Tiles of each draw.
const TILES: usize = 400;

/// Rows, outputs and inputs of products: ragged, and three slices of `k` or more.
const SHAPES: [[usize; 3]; 2] = [[35, 72, 3072], [270, 136, 4096]];

/// Rows, outputs and inputs of an expert.
const GROUPED: [usize; 3] = [135, 80, 768];

/// Outputs and inputs of a matrix that becomes a panel.
const PANEL: [usize; 2] = [75, 768];

/// Tokens of the sequences that two layers read. The first has three KV splits, and a second chunk that
/// begins inside one; then each goes on by one token, four times.
const PROMPTS: [usize; 3] = [700, 20, 5];
/// Tokens of sequences that are read whole: rows of one KV split, in the tiles of steps without longer ones.
const SHORT_PROMPTS: [usize; 3] = [150, 20, 5];
const FIRST_CHUNK: usize = 610;
const ANSWER: usize = 4;

impl Gpu {
    /// The first difference from the kernels' definitions, if any; with a checkpoint, in the products of its
    /// formats alone and in two layers of its width with seeded weights. Its own weights are not read.
    ///
    /// # Errors
    /// The device fails or has too little memory.
    pub fn check(&self, weights: Option<&Weights>) -> Result<Option<Difference>> {
        let formats = formats(weights, self.packs());
        let checks: [&dyn Fn() -> Result<Option<Difference>>; 5] = [
            &|| Ok(self.check_tensor_core()?),
            &|| Ok(self.check_products(&formats)?),
            &|| Ok(self.check_panels(&formats)?),
            &|| self.check_small_layers(),
            &|| weights.map_or(Ok(None), |weights| self.check_layers(weights)),
        ];
        checks.iter().find_map(|check| check().transpose()).transpose()
    }

    /// The sums of the tensor core. For a capability without known sums (neither 8, 9, 10 nor 12) there is no
    /// difference.
    ///
    /// # Errors
    /// The device fails.
    pub fn check_tensor_core(&self) -> Result<Option<Difference>, Error> {
        for (spread, of_8, of_9) in TENSOR_CORE {
            let known = match self.capability().0 {
                8 => of_8,
                9 | 10 | 12 => of_9,
                _ => return Ok(None),
            };
            let mut draw = Draw(1);
            let exponent = |v: u32| 127 - spread + (v >> 8) % (2 * spread);
            let half = |draw: &mut Draw| {
                let v = draw.bits();
                ((v & 1) << 15 | exponent(v) << 7 | (v >> 1 & 0x7f)) as u16
            };
            let single = |draw: &mut Draw| {
                let v = draw.bits();
                f32::from_bits((v & 1) << 31 | exponent(v) << 23 | draw.bits() & 0x7f_ffff)
            };
            let (mut a, mut b, mut c) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..TILES {
                a.extend((0..256).map(|_| half(&mut draw)));
                b.extend((0..128).map(|_| half(&mut draw)));
                c.extend((0..128).map(|_| single(&mut draw)));
            }
            let sums = self.multiply_tiles(&a, &b, &c)?;
            let subject = format!("the tensor core, tiles of spread {spread}");
            if let Some(found) = Difference::of_hash(&subject, known, &sums) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Compares every kernel that computes a product of these formats with the plain one of its format.
    fn check_products(&self, formats: &[Format]) -> Result<Option<Difference>, Error> {
        for &format in formats {
            let way = Way::new(format, self.packs());
            if let Way::Panel(_) = way {
                continue;
            }
            let kind = way.kind(1);
            if let Some(found) = self.check_grouped(way, format)? {
                return Ok(Some(found));
            }
            for [m, n, k] in SHAPES {
                let mut draw = Draw(7);
                let (x, rows) = (draw.tokens(m, k), draw.rows(format, n, k));
                let all = self.products(kind, &x, &way.laid_out(format, k, &rows), [m, n, k])?;
                let of_rounded = match way {
                    Way::Packed(..) => Some(self.rounded_product(format, &x, &rows, [m, n, k])?),
                    _ => None,
                };
                let expected = of_rounded.as_ref().unwrap_or(&all[0].1);
                for (name, computed) in &all {
                    let subject = format!("`{name}` of [{m}, {k}] by [{n}, {k}]");
                    if let Some(found) = Difference::between(&subject, n, expected, computed) {
                        return Ok(Some(found));
                    }
                }
            }
        }
        Ok(None)
    }

    /// The product of weights that are rounded to `bf16` here.
    fn rounded_product(
        &self,
        format: Format,
        x: &[u16],
        rows: &[u8],
        shape: [usize; 3],
    ) -> Result<Vec<f32>, Error> {
        let mut weights = vec![0; 2 * shape[1] * shape[2]];
        round_to_bf16(format, rows, &mut weights);
        Ok(self.products(Kind::Bf16, x, &weights, shape)?.swap_remove(0).1)
    }

    /// Compares every kernel that rounds these formats' weights to `bf16` with their values.
    fn check_panels(&self, formats: &[Format]) -> Result<Option<Difference>, Error> {
        let [n, k] = PANEL;
        for &format in formats {
            let rows = Draw(5).rows(format, n, k);
            let Some((kernel, computed)) = self.dequantized(format, &rows, PANEL)? else { continue };
            // The sign of a zero, which the two may have differently, moves no sum: `+ 0.0` clears it.
            let values = values(format, &rows).into_iter();
            let expected: Vec<f32> = values.map(|value| bf16::from_f32(value).to_f32() + 0.0).collect();
            let computed: Vec<f32> =
                computed.into_iter().map(|bits| bf16::from_bits(bits).to_f32() + 0.0).collect();
            let subject = format!("`{kernel}` of [{n}, {k}]");
            if let Some(found) = Difference::between(&subject, k, &expected, &computed) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Compares every kernel that computes the products of experts with the plain one, and that with the
    /// plain product with each expert's weights: one expert has all rows, one some, one none.
    fn check_grouped(&self, way: Way, format: Format) -> Result<Option<Difference>, Error> {
        let ([m, n, k], kind) = (GROUPED, way.kind(1));
        let mut draw = Draw(9);
        let x = draw.tokens(m, k);
        let experts = [(); 3].map(|()| way.laid_out(format, k, &draw.rows(format, n, k)));
        let of_experts = [(0..m as u32).collect(), vec![], vec![3, 4, m as u32 - 1]];
        let [sums, gated] = self.grouped_products(kind, &x, &experts.concat(), [n, k], &of_experts)?;
        let mut expected = Vec::new();
        for (weights, rows) in experts.iter().zip(&of_experts) {
            let all = self.products(kind, &x, weights, [m, n, k])?;
            expected.extend(rows.iter().flat_map(|&row| &all[0].1[row as usize * n..][..n]).copied());
        }
        let subject = |name| format!("`{name}` of experts [{n}, {k}]");
        let of_sums = sums.iter().map(|(name, sums)| Difference::between(&subject(name), n, &expected, sums));
        let (_, plain) = &gated[0];
        let of_gated =
            gated.iter().map(|(name, gated)| Difference::between(&subject(name), n / 2, plain, gated));
        Ok(of_sums.chain(of_gated).find_map(|difference| difference))
    }

    /// The logits of two layers of a small model, whose bits are known for capability 9: they show a wrong
    /// kernel that has no second one to compare with, such as a norm. On other capabilities there is no
    /// difference.
    ///
    /// # Errors
    /// The device fails or has too little memory.
    pub fn check_small_layers(&self) -> Result<Option<Difference>> {
        if self.capability().0 != 9 {
            return Ok(None);
        }
        for (subject, json, known) in [
            ("two layers of a small model", &*SMALL, SMALL_LAYERS),
            ("two layers of a small model with fused heads", &*SMALL_FUSED, LAYERS_FUSED),
            ("two layers of a small model with experts", &*SMALL_EXPERTS, LAYERS_OF_EXPERTS),
            ("two layers of a small hybrid", &*SMALL_HYBRID, LAYERS_OF_HYBRID),
            ("two layers of a small model with experts beside a dense half", &*SMALL_BESIDE, LAYERS_BESIDE),
        ] {
            let config = from_json("a small model", json)?;
            let logits = logits(&mut *super::load(self, &Weights::seeded(config, 11))?, &[PROMPTS])?;
            if let Some(found) = Difference::of_hash(subject, known, &logits.concat()) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Compares the logits of two layers of a checkpoint's width and formats, by the kernels of a run, with
    /// those of the proven ones with plain attention, each launched by itself.
    ///
    /// # Errors
    /// The device fails or has too little memory.
    pub fn check_layers(&self, alike: &Weights) -> Result<Option<Difference>> {
        let config = alike.config();
        // The second layer has experts, even if the model's first layers are dense.
        let mut config = Config { n_layers: config.n_layers.min(2), ..config.clone() };
        if let Some(experts) = &mut config.experts {
            experts.layers = vec![config.n_layers < 2, true];
        }
        // Both kinds of attention.
        if config.sliding.is_some() {
            config.slides = (1..=config.n_layers).map(|layer| layer < config.n_layers).collect();
        }
        // Of a hybrid, both kinds of layers.
        if let Some(delta_net) = &mut config.delta_net {
            delta_net.layers = (1..=config.n_layers).map(|layer| layer < config.n_layers).collect();
        }
        let weights = alike.seeded_alike(config, 11);
        let run = |gpu: &Self| {
            let mut model = super::load(gpu, &weights)?;
            logits(&mut *model, &[SHORT_PROMPTS, PROMPTS])
        };
        let expected = run(&self.with_kernels(KernelSet::Proven).with_plain_attention().without_graphs())?;
        for (step, (expected, computed)) in expected.iter().zip(run(self)?).enumerate() {
            let subject = format!("two layers of this model's width, step {step}");
            if let Some(found) = Difference::between(&subject, weights.config().vocab, expected, &computed) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// The formats whose products are checked: those of a checkpoint that have kernels of their own, and `bf16`,
/// which all models have; without a checkpoint, all.
fn formats(weights: Option<&Weights>, packs: bool) -> Vec<Format> {
    let has = |format| weights.is_none_or(|weights| weights.tensors().any(|(_, used, _)| used == format));
    let is_own = |format| Way::new(format, packs) != Way::Direct(Kind::Bf16) && has(format);
    let is_checked = |format: &Format| *format == Format::Bf16 || is_own(*format);
    Format::ALL.into_iter().filter(is_checked).collect()
}

/// A sequence of the check.
struct Sequence {
    tokens: Vec<u32>,
    /// Positions of each step: prompts side by side, the rest of the longest one, then answers token by
    /// token, so that a step comes again and is recorded.
    chunks: Vec<Range<usize>>,
    blocks: Vec<u32>,
}

impl Sequence {
    /// A prompt of `n` tokens and its answer, in blocks from `first` on.
    fn new(n: usize, first: &mut usize) -> Self {
        let blocks = *first..*first + (n + ANSWER).div_ceil(BLOCK);
        *first = blocks.end;
        let cut = n.min(FIRST_CHUNK);
        let answers = (n..n + ANSWER).map(|i| i..i + 1);
        Self {
            tokens: (0..n + ANSWER).map(|i| ((i * 37 + n) % 300) as u32).collect(),
            chunks: [0..cut, cut..n].into_iter().chain(answers).collect(),
            blocks: blocks.map(|block| block as u32).collect(),
        }
    }

    /// The tokens of a step, with the logits of the last one.
    fn part(&self, step: usize, state: Option<u32>) -> Part<'_> {
        let chunk = &self.chunks[step];
        Part {
            tokens: &self.tokens[chunk.clone()],
            position: chunk.start,
            blocks: &self.blocks,
            logits_from: chunk.len() - 1,
            states_from: chunk.len(),
            adapter: None,
            state,
        }
    }
}

/// The logits of every step, for each group of prompts, one after the other.
fn logits(model: &mut dyn Model, groups: &[[usize; 3]]) -> Result<Vec<Vec<f32>>> {
    let mut n_blocks = 0;
    let groups: Vec<_> = groups.iter().map(|group| group.map(|n| Sequence::new(n, &mut n_blocks))).collect();
    model.runtime_mut().reserve(n_blocks, KvType::Bf16)?;
    let has_states = model.config().delta_net.is_some();
    if has_states {
        model.runtime_mut().reserve_states(groups.as_flattened().len())?;
    }
    let mut all = Vec::new();
    for (group, sequences) in groups.iter().enumerate() {
        for step in 0..sequences[0].chunks.len() {
            let chunks = (0..).zip(sequences).filter(|(_, sequence)| !sequence.chunks[step].is_empty());
            let state = |i: usize| has_states.then_some((group * sequences.len() + i) as u32);
            let parts: Vec<Part<'_>> = chunks.map(|(i, sequence)| sequence.part(step, state(i))).collect();
            if !parts.is_empty() {
                model.run(Step::new(parts, Vec::new()))?;
                all.push(model.runtime().logits()?.concat());
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::{Difference, TENSOR_CORE};

    /// The table is that of `scripts/golden_mma.py`, which the tests of the emulated tensor core read.
    #[test]
    fn sums_of_the_tensor_core_are_the_golden_ones() {
        let golden: serde_json::Value =
            serde_json::from_str(include_str!("../../../tests/golden/mma.json")).unwrap();
        for ((spread, of_8, of_9), many) in TENSOR_CORE.iter().zip(golden["many"].as_array().unwrap()) {
            assert_eq!(many["spread"], *spread);
            assert_eq!(many["tiles"], super::TILES);
            assert_eq!(many["d"]["80"], format!("{of_8:016x}"));
            for capability in ["90", "100", "120"] {
                assert_eq!(many["d"][capability], format!("{of_9:016x}"), "{capability}");
            }
        }
    }

    #[test]
    fn a_difference_says_where_it_is() {
        assert_eq!(Difference::between("a", 2, &[1.0, 2.0], &[1.0, 2.0]), None);
        let found = Difference::between("`k`", 2, &[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 3.0, f32::NAN]).unwrap();
        assert_eq!(found.to_string(), "`k`: row 1, column 1 is NaN and must be 4e0");
        assert!(Difference::between("zeros", 1, &[0.0], &[-0.0]).is_some(), "bit for bit");
    }
}
