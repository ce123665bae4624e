//! Equality of bits on every architecture: hashes of the results of each operation and each tiny model,
//! written by the portable instruction set on x86-64. Every instruction set of this machine must reproduce
//! them.

use half::{bf16, f16};

use super::{BOTH, Format, Isa, Random, product};
use crate::attend::{Cached, Row, SPLIT, Scratch, attend};
use crate::lanes::Stored;
use crate::{Compute, Cpu, activate, norm, softmax};
use tribunal_model::{BLOCK, Decoder, KvType, Model, Part, Step, Weights};

/// FNV-1a over the bits of numbers.
fn hash(numbers: impl IntoIterator<Item = u32>) -> u64 {
    let bytes = numbers.into_iter().flat_map(u32::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn bits(numbers: &[f32]) -> impl Iterator<Item = u32> {
    numbers.iter().map(|x| x.to_bits())
}

/// Compares the result of each instruction set with the known one. A failing test prints the whole list of
/// this machine's results.
#[track_caller]
fn check(known: &[(&str, u64)], on: impl Fn(Isa) -> Vec<(String, u64)>) {
    for isa in Isa::available() {
        let found = on(isa);
        let same = found.len() == known.len()
            && found.iter().zip(known).all(|((name, hash), known)| (name.as_str(), *hash) == *known);
        let lines: Vec<String> =
            found.iter().map(|(name, hash)| format!("({name:?}, {hash:#x}),\n")).collect();
        assert!(same, "{} gives\n{}", isa.name(), lines.concat());
    }
}

#[test]
fn products() {
    let on = |isa: Isa| {
        let mut found = Vec::new();
        for format in Format::ALL {
            for activations in BOTH {
                let mut random = Random::new(23);
                let all = [1, 2, 4, 7, 16, 21].map(|m| {
                    let (weights, x) = (random.packed(format, 37, 768), random.rows(m, 768));
                    product(&weights, &x, activations, isa)
                });
                found.push((format!("{format:?} {activations:?}"), hash(all.into_iter().flatten())));
            }
        }
        found
    };
    check(PRODUCTS, on);
}

#[test]
fn operations_between_products() {
    let on = |isa: Isa| {
        let mut random = Random::new(29);
        // A whole number of vectors and a remainder.
        let (x, y) = (random.rows(1, 1003), random.rows(1, 1003));
        let changed = |change: &dyn Fn(&mut [f32])| {
            let mut x = x.clone();
            change(&mut x);
            hash(bits(&x))
        };
        let peak = softmax::largest(isa, &x);
        let total = softmax::log_sum_exp(isa, &x).to_bits();
        vec![
            ("norm".into(), changed(&|x| norm::in_place(isa, x, &y, 1e-6))),
            ("silu".into(), changed(&|x| activate::silu_mul(isa, x, &y))),
            ("gelu".into(), changed(&|x| activate::gelu_mul(isa, x, &y))),
            ("exponentials".into(), hash(bits(&softmax::exponentials(isa, &x, peak, 0.7)))),
            ("largest".into(), hash([peak.to_bits()])),
            ("log-sum-exp".into(), hash([total as u32, (total >> 32) as u32])),
        ]
    };
    check(OPERATIONS, on);
}

/// Some rows that share blocks and one that shares none, with and without a window, under one query and
/// several.
fn attended<S: Stored>(isa: Isa) -> u64 {
    const DIM: usize = 48;
    let mut random = Random::new(31);
    let n_blocks = 2 * SPLIT / BLOCK + 5;
    let mut stored = || -> Vec<S> {
        let n = n_blocks * 2 * BLOCK * DIM;
        random.rows(1, n).into_iter().map(|x| S::narrow(0.3 * x)).collect()
    };
    let (keys, values) = (stored(), stored());
    let blocks: Vec<u32> = (0..n_blocks as u32).collect();
    let others: Vec<u32> = blocks.iter().rev().copied().collect();
    let row = |position: usize, blocks| Row { position, blocks };
    let rows = [row(300, &blocks[..]), row(301, &blocks), row(511, &blocks), row(37, &others)];
    let mut all = Vec::new();
    for (group, window) in [(1, None), (1, Some(70)), (3, None), (7, Some(300))] {
        let cached = Cached {
            keys: &keys,
            values: &values,
            n_kv_heads: 2,
            head_dim: DIM,
            value_dim: DIM,
            window,
            softcap: None,
            sinks: None,
        };
        let queries = random.rows(rows.len() * group, DIM);
        let mut scratch = Scratch::default();
        scratch.queries.extend(queries.into_iter().map(|x| 0.1 * x));
        let mut out = vec![f32::NAN; rows.len() * group * DIM];
        attend(isa, cached, 1, &rows, &mut scratch, &mut out);
        all.extend(out);
    }
    hash(bits(&all))
}

#[test]
fn attention() {
    let on = |isa: Isa| {
        vec![
            ("f32".into(), attended::<f32>(isa)),
            ("f16".into(), attended::<f16>(isa)),
            ("bf16".into(), attended::<bf16>(isa)),
        ]
    };
    check(ATTENTION, on);
}

/// The logits of a tiny model at all positions of one sequence.
fn logits(name: &str, compute: Compute, kind: KvType) -> u64 {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny").join(name);
    let weights = Weights::open(&folder).unwrap();
    let mut model = Decoder::load(&weights, Cpu::new(weights.config(), compute)).unwrap();
    let tokens: Vec<u32> = (0..90).map(|i| (i * 17 + i * i) % 300).collect();
    let blocks: Vec<u32> = (0..tokens.len().div_ceil(BLOCK) as u32).collect();
    model.runtime_mut().reserve(blocks.len(), kind).unwrap();
    let part = Part {
        tokens: &tokens,
        position: 0,
        blocks: &blocks,
        logits_from: 0,
        states_from: tokens.len(),
        adapter: None,
        state: None,
    };
    model.run(Step::new([part], Vec::new())).unwrap();
    hash(model.runtime().logits().unwrap().iter().flat_map(|row| bits(row).collect::<Vec<_>>()))
}

#[test]
fn tiny_models() {
    let on = |isa: Isa| {
        let mut found = Vec::new();
        for name in [
            "llama",
            "smollm2",
            "mistral",
            "qwen2",
            "qwen2-yarn",
            "qwen3",
            "gemma3",
            "qwen3-moe",
            "glm4-moe",
            "gemma2",
            "hunyuan",
            "ministral3",
        ] {
            for (floats, kind) in
                [(None, KvType::F32), (Some(Format::F16), KvType::F16), (Some(Format::Bf16), KvType::Bf16)]
            {
                let compute = Compute { tier: isa, floats, ..Compute::default() };
                found.push((format!("{name} {kind:?}"), logits(name, compute, kind)));
            }
        }
        found
    };
    check(MODELS, on);
}

const PRODUCTS: &[(&str, u64)] = &[
    ("F32 Q8", 0xcbda_cddd_f5bf_4708),
    ("F32 Float", 0xcbda_cddd_f5bf_4708),
    ("F16 Q8", 0x7146_8f53_8bb6_b903),
    ("F16 Float", 0x7146_8f53_8bb6_b903),
    ("Bf16 Q8", 0xf1d3_ee01_ee88_8aae),
    ("Bf16 Float", 0xa5bd_48c6_7671_4967),
    ("Q8_0 Q8", 0xf5e7_01b9_00ff_a9f1),
    ("Q8_0 Float", 0xb955_6e95_7cad_d439),
    ("Q4_0 Q8", 0x07a4_6fca_a791_bb8b),
    ("Q4_0 Float", 0x978c_8e17_e5a4_da26),
    ("Q4_1 Q8", 0x9aff_cbd6_3775_2e17),
    ("Q4_1 Float", 0xfe7b_6640_5c34_675c),
    ("Q5_0 Q8", 0x1649_1e8f_cfa7_d8f8),
    ("Q5_0 Float", 0x6404_3ce9_f565_647b),
    ("Q5_1 Q8", 0xb28c_336c_3194_7ce9),
    ("Q5_1 Float", 0x6fa5_f5b4_0194_b0ff),
    ("Q4K Q8", 0xc92e_de0f_ef22_dcc4),
    ("Q4K Float", 0x9d7f_efd5_3bf3_b712),
    ("Q5K Q8", 0x8747_cbc5_530b_e34f),
    ("Q5K Float", 0x0c53_c5b6_f230_a3ab),
    ("Q6K Q8", 0x8150_9d25_c3e3_686d),
    ("Q6K Float", 0xdadb_7b6c_c914_b384),
    ("Q3K Q8", 0x919e_f879_35e0_378a),
    ("Q3K Float", 0x5836_95bc_03d3_ed75),
    ("Iq4Nl Q8", 0xce4f_ea62_b28c_7ddc),
    ("Iq4Nl Float", 0x6422_1cac_d278_630b),
    ("Iq4Xs Q8", 0x82ac_9794_dc11_9faf),
    ("Iq4Xs Float", 0x9719_0b29_001c_1198),
    ("Q2K Q8", 0x3005_1b34_621c_d2c0),
    ("Q2K Float", 0x3005_1b34_621c_d2c0),
    ("Mxfp4 Q8", 0xb14b_f366_e46e_1c41),
    ("Mxfp4 Float", 0x268d_1440_5855_7417),
    ("U4 Q8", 0xb778_4512_d6df_f257),
    ("U4 Float", 0x11e0_5e62_be08_3d53),
    ("F8E4M3 Q8", 0xfaa5_450f_4a22_e2cd),
    ("F8E4M3 Float", 0xfaa5_450f_4a22_e2cd),
];
const OPERATIONS: &[(&str, u64)] = &[
    ("norm", 0x6084_dec8_84e4_4160),
    ("silu", 0x798e_0e4f_6f1e_621d),
    ("gelu", 0x3af9_a83e_63e9_6abc),
    ("exponentials", 0xba7f_eb8c_fbd4_f7a3),
    ("largest", 0x2c07_4e72_2bb6_ac94),
    ("log-sum-exp", 0xc9a4_c69b_25eb_3a4d),
];
const ATTENTION: &[(&str, u64)] =
    &[("f32", 0x405c_228e_cd24_86e1), ("f16", 0xd4f1_5a04_156d_7746), ("bf16", 0xd5fc_1c74_88d6_2b30)];
const MODELS: &[(&str, u64)] = &[
    ("llama F32", 0x0da3_b4b5_d4f8_f423),
    ("llama F16", 0x5669_691c_8c25_6bbd),
    ("llama Bf16", 0x8c40_0685_b0b2_9578),
    ("smollm2 F32", 0x878f_7855_860d_3282),
    ("smollm2 F16", 0xcb78_9eef_a24a_36c4),
    ("smollm2 Bf16", 0xaa37_3918_5f52_4605),
    ("mistral F32", 0xb185_59a2_ae1e_3d4c),
    ("mistral F16", 0x028b_c981_484e_56a9),
    ("mistral Bf16", 0x5f0b_ef6b_334a_76c9),
    ("qwen2 F32", 0x2a68_c225_9fc4_2d01),
    ("qwen2 F16", 0x0725_83fd_6934_f811),
    ("qwen2 Bf16", 0xb0b7_66de_f7f2_a4fb),
    ("qwen2-yarn F32", 0x50a5_4609_c3e6_5419),
    ("qwen2-yarn F16", 0x9fa0_a33f_62ca_08b2),
    ("qwen2-yarn Bf16", 0x62ae_f3f9_6aa4_457b),
    ("qwen3 F32", 0xaa41_97ea_3558_95fd),
    ("qwen3 F16", 0x3828_8ede_3d26_b077),
    ("qwen3 Bf16", 0xdd39_c516_4db2_5d62),
    ("gemma3 F32", 0x3969_cd14_f47e_7ca6),
    ("gemma3 F16", 0xd734_2006_7ed9_ccf4),
    ("gemma3 Bf16", 0xcc22_81ab_2f81_3059),
    ("qwen3-moe F32", 0x706c_41f9_ec4b_6731),
    ("qwen3-moe F16", 0xf539_0e5e_407b_0859),
    ("qwen3-moe Bf16", 0x1f5d_c5e2_ada3_fbdb),
    ("glm4-moe F32", 0xf58e_2638_c39c_513b),
    ("glm4-moe F16", 0xbf63_6335_82f2_f269),
    ("glm4-moe Bf16", 0x4382_9e5b_9d72_f364),
    ("gemma2 F32", 0x19d0_393e_d602_dcba),
    ("gemma2 F16", 0xa080_1f00_81cf_a4d5),
    ("gemma2 Bf16", 0x8357_22ee_7ff3_6f44),
    ("hunyuan F32", 0xb11b_ebd8_3257_e9c8),
    ("hunyuan F16", 0xfb0c_0071_e44a_82a2),
    ("hunyuan Bf16", 0x75f8_267e_f2c6_2d68),
    ("ministral3 F32", 0xd4d1_81ef_75a2_e6f0),
    ("ministral3 F16", 0x86d1_2487_95e1_c599),
    ("ministral3 Bf16", 0xb18e_d513_94e3_1ed1),
];
