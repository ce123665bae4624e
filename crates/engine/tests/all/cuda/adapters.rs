//! Adapters on a GPU: near the CPU's and PEFT's, and bit for bit the same whatever else is in the step.

use tribunal_engine::{Device, Options};
use tribunal_model::KvType;

use super::{apart, gpu};
use crate::{
    engine::options,
    model::{Golden, bits, goldens_of, load_on},
    model_adapters::{GOLDEN, adapted, adapter, check_mixed, check_replies, logits},
};

#[test]
fn logits_are_near_those_of_the_cpu_and_of_peft() {
    let Some(gpu) = gpu() else { return };
    for (name, base) in GOLDEN {
        let [mut ours, mut cpu] = [&gpu, &Device::Cpu].map(|device| load_on(device, base));
        for model in [&mut ours, &mut cpu] {
            assert_eq!(model.adapt(&adapter(name)).unwrap(), 0);
        }
        for Golden { ids, logits: peft } in goldens_of("adapters", name) {
            let adapted = logits(&mut *ours, &ids, KvType::Bf16, Some(0));
            let of_cpu = logits(&mut *cpu, &ids, KvType::Bf16, Some(0));
            let plain = logits(&mut *ours, &ids, KvType::Bf16, None);
            for (theirs, whose) in [(&of_cpu, "the CPU's"), (&peft, "PEFT's")] {
                let apart = apart(&adapted.concat(), &theirs.concat());
                // The tolerance without an adapter: weights and inputs of every product are rounded to bf16.
                assert!(apart < 0.05, "{name}: {apart} from {whose}");
            }
            let moved = apart(&plain.concat(), &peft.concat());
            assert!(moved > 0.1, "{name}: without the adapter they are {moved} apart");
        }
    }
}

#[test]
fn a_row_does_not_depend_on_its_neighbours_adapters() {
    let Some(gpu) = gpu() else { return };
    let mut model = adapted(&gpu);
    // More rows of one adapter in a step than an item holds, both adapters and none together, chunks of all
    // lengths.
    let sequences = [(70, Some(0)), (41, None), (90, Some(1)), (33, Some(0))];
    let cuts = [(0, 19), (1, 3), (2, 1), (3, 33), (0, 1), (1, 38), (2, 47), (0, 8), (2, 9)];
    check_mixed(&mut *model, KvType::Bf16, &sequences, &cuts);
    check_mixed(&mut *model, KvType::Bf16, &[(20, Some(1)), (20, Some(1))], &[(0, 1), (1, 1)]);
}

#[test]
fn rows_without_an_adapter_have_the_bits_of_a_model_without_one() {
    let Some(gpu) = gpu() else { return };
    let ids: Vec<u32> = (0..70).map(|i| i * 41 % 300).collect();
    let plain = logits(&mut *load_on(&gpu, "qwen2"), &ids, KvType::Bf16, None);
    let with = logits(&mut *adapted(&gpu), &ids, KvType::Bf16, None);
    assert!(plain.iter().zip(&with).all(|(a, b)| bits(a) == bits(b)));
}

#[test]
fn replies_do_not_depend_on_company_cache_chunks_drafts_or_recordings() {
    let Some(gpu) = gpu() else { return };
    let options = || Options { device: gpu.clone(), ..options() };
    let device = gpu.clone().without_graphs();
    let slow = Options { device, n_rows: 1, prefix_cache: false, drafts: false, ..options() };
    let variants = [
        Options { n_rows: 64, ..options() },
        Options { n_rows: 5, step_tokens: 33, drafts: false, ..options() },
        Options { kv_bytes: Some(660 * 1024), n_rows: 3, ..options() },
    ];
    check_replies(&slow, &variants, 9);
}
