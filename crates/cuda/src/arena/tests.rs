//! Computed sizes are never exceeded, and buffers in use together do not overlap.

use proptest::prelude::*;

use super::*;
use crate::{plan::Plan, work_tiles::Limits};
use tribunal_model::{Config, Part, Step, weights::Weights};

fn config(name: &str) -> Config {
    let path = format!("{}/../../models/tiny/{name}", env!("CARGO_MANIFEST_DIR"));
    Weights::open(path.as_ref()).unwrap().config().clone()
}

const MOST: StepLimits = StepLimits { rows: 300, wanted: 90, sequences: 24, context: 1024 };
/// Blocks of a sequence.
const OWN: usize = MOST.context / BLOCK;

/// A sequence's first position, its tokens, the number of its last ones with logits and with states, and its
/// adapter.
type Drawn = (usize, usize, usize, usize, Option<u32>);

/// A step within [`MOST`]: drawn chunks that do not fit are left out.
fn step(drawn: &[Drawn]) -> Step {
    let tokens = vec![1; MOST.context];
    let blocks: Vec<u32> = (0..(MOST.sequences * OWN) as u32).collect();
    let (mut rows, mut wanted) = (MOST.rows, MOST.wanted);
    let mut parts = Vec::new();
    for (blocks, &(position, n, n_logits, n_states, adapter)) in blocks.chunks(OWN).zip(drawn) {
        let n = n.min(MOST.context - position).min(rows);
        let n_logits = n_logits.min(n).min(wanted);
        (rows, wanted) = (rows - n, wanted - n_logits);
        if n > 0 {
            let (logits_from, states_from) = (n - n_logits, n - n_states.min(n));
            let state = Some(parts.len() as u32);
            parts.push(Part {
                tokens: &tokens[..n],
                position,
                blocks,
                logits_from,
                states_from,
                adapter,
                state,
            });
        }
    }
    let copies = (0..parts.len() as u32).map(|block| (block, block + 1)).collect();
    Step::new(parts, copies)
}

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    let adapter = prop::option::of(0..3_u32);
    let length = prop_oneof![3 => 1..4_usize, 1 => 1..200_usize];
    let any = (0..MOST.context, length.clone(), 0..40_usize, 0..20_usize, adapter.clone());
    // Answers: the logits of all rows, no states.
    let answer = (0..MOST.context, length, Just(1000_usize), Just(0_usize), adapter);
    prop_oneof![
        prop::collection::vec(any, 1..MOST.sequences),
        prop::collection::vec(answer, 1..MOST.sequences)
    ]
}

fn limits(shared_bytes: usize, splits: usize) -> Limits {
    Limits { multiprocessors: 132, shared_bytes, splits, cascade: true, new_tma: false, merges: false }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Six times 2,500 steps: no step of an allowed size needs more than the reserved memory.
    #[test]
    fn no_step_is_larger_than_what_is_reckoned(drawn in drawn(), pads in any::<bool>()) {
        thread_local!(static CONFIGS: [Config; 3] = ["qwen2", "gemma3", "qwen3-5"].map(config));
        for i in 0..6 {
            CONFIGS.with(|configs| {
                let config = &configs[i % 3];
                let shared_bytes = if i < 3 { 227 << 10 } else { 0 };
                let most = Extent::from_limits(MOST, config.into(), 3);
                let step = step(&drawn);
                let plan = Plan::new(&step, config, limits(shared_bytes, most.splits), pads);
                prop_assert!(most.holds(plan.extent()), "{:?} in {most:?}", plan.extent());
                Ok(())
            })?;
        }
    }
}

const SLOTS: [Slot; N_SLOTS] = [
    Slot::Numbers,
    Slot::Stream,
    Slot::WantedStream,
    Slot::Normed,
    Slot::Product,
    Slot::Splits,
    Slot::Peaks,
    Slot::Queries,
    Slot::WantedQueries,
    Slot::Attended,
    Slot::Gates,
    Slot::WantedGates,
    Slot::Gated,
    Slot::Mixed,
    Slot::MixedOut,
    Slot::Sums,
    Slot::Semaphores,
    Slot::Panel,
    Slot::Hidden,
    Slot::Noted,
    Slot::Wants,
    Slot::Choices,
    Slot::Found,
    Slot::Chosen,
    Slot::ChosenWeights,
    Slot::PairPlaces,
    Slot::PairRows,
    Slot::ExpertStarts,
    Slot::SharedFactors,
    Slot::GateTiles,
    Slot::DownTiles,
    Slot::Beside,
    Slot::ExpertGated,
    Slot::ExpertOutputs,
    Slot::Whole,
    Slot::Logits,
];

/// Slots that are in use at the same time share no byte, and all of them lie in the arena.
#[test]
fn what_is_in_use_together_lies_apart() {
    for name in ["qwen2", "glm4-moe", "qwen3-5-moe"] {
        check_places((&config(name)).into());
    }
}

fn check_places(sizes: Sizes) {
    let shard = Some(ShardBuffers { widest: 900, own_hidden: 16, own_logits: 160, all_logits: 320 });
    let extra = Extra { panel: 5000, ranks: 24, n_adapters: 3, shard, ..Extra::of(sizes) };
    let places = Places::new(Extent::from_limits(MOST, sizes, 3), sizes, extra);
    let shares = |a: Slot, b: Slot| {
        let of = |slot, some: &[Slot]| some.contains(&slot);
        let attention = [Slot::Queries, Slot::WantedQueries, Slot::Attended, Slot::Gates, Slot::WantedGates];
        let feed = [Slot::Gated, Slot::ExpertGated, Slot::ExpertOutputs];
        let mixed = [Slot::Mixed, Slot::MixedOut];
        let pairs: [(&[Slot], &[Slot]); 4] = [
            (&[Slot::Product], &[Slot::Splits, Slot::Peaks]),
            (&feed, &attention),
            (&feed, &mixed),
            (&mixed, &attention),
        ];
        pairs.iter().any(|(one, other)| of(a, one) && of(b, other) || of(b, one) && of(a, other))
    };
    for (i, &a) in SLOTS.iter().enumerate() {
        let (start, length) = places.slots[a as usize];
        assert_eq!((i, start % ALIGNED), (a as usize, 0));
        assert!(start + length <= places.bytes, "{a:?}");
        for &b in &SLOTS[..i] {
            let (other, n) = places.slots[b as usize];
            let apart = start + length <= other || other + n <= start;
            assert!(apart || shares(a, b), "{a:?} and {b:?}");
        }
    }
}

/// Memory of the steps of published shapes, in MiB: a change shows here.
#[test]
fn published_shapes_take_what_they_took() {
    let qwen_7b = Sizes {
        hidden: 3584,
        intermediate: 18944,
        n_heads: 28,
        full: AttentionSizes { n_layers: 28, n_kv_heads: 4, head_dim: 128, rotary_dim: 128, cached_parts: 2 },
        sliding: None,
        vocab: 152_064,
        context: 32_768,
        experts: None,
        delta_net: None,
        gated_attention: false,
        on_one_card: None,
    };
    let qwen_32b = Sizes {
        hidden: 5120,
        intermediate: 27648,
        n_heads: 40,
        full: AttentionSizes { n_layers: 64, n_kv_heads: 8, ..qwen_7b.full },
        ..qwen_7b
    };
    let mib = |sizes: Sizes, tokens: usize| {
        let rows = tokens + 256;
        let most =
            StepLimits { rows, wanted: sizes.logits_of(rows).max(256), sequences: 256, context: 32_768 };
        step_bytes(sizes, most) >> 20
    };
    assert_eq!([512, 8192].map(|tokens| mib(qwen_7b, tokens)), [395, 1858]);
    assert_eq!([512, 8192].map(|tokens| mib(qwen_32b, tokens)), [408, 2676]);
}
