//! Drivers of several versions, which the emulated one stands for: those from CUDA 12.2 on run a model, older
//! ones are refused in a sentence. Cards without TMA.

use tribunal_cuda::KernelSet;
use tribunal_engine::Device;
use tribunal_model::KvType;

use super::{again, gpu, is_emulated, part};
use crate::model::{Desk, bits, load_on, sequences};

const TEST: &str = "drivers::drivers_from_12_2_on_run_a_model";
const WITHOUT_TMA: &str = "drivers::new_kernels_without_tma_have_the_same_bits";

/// The result of a process with these variables, by its marked line.
fn line(part: &str, variables: &[(&str, &str)]) -> String {
    line_of(TEST, part, variables)
}

fn line_of(test: &str, part: &str, variables: &[(&str, &str)]) -> String {
    let (said, passed) = again(test, part, variables);
    let line = said.lines().find_map(|line| line.strip_prefix("RESULT ").map(str::to_owned));
    line.unwrap_or_else(|| panic!("{variables:?} ({passed}): {said}"))
}

#[test]
fn drivers_from_12_2_on_run_a_model() {
    match part().as_deref() {
        Some("refused") => {
            let error = Device::named("cuda").map(|_| ()).unwrap_err().to_string();
            println!("\nRESULT {}", error.replace('\n', " "));
        }
        Some(_) => {
            let gpu = gpu().unwrap();
            let mut model = load_on(&gpu, "qwen2");
            let mut desk = Desk::new(&mut *model, &sequences(&[40, 9]), KvType::Bf16);
            // The third step is recorded, the fourth launched as a whole.
            let steps: [&[(usize, usize)]; 4] =
                [&[(0, 30), (1, 5)], &[(0, 1), (1, 1)], &[(0, 1), (1, 1)], &[(0, 1), (1, 1)]];
            let rows: Vec<Vec<u32>> =
                steps.into_iter().flat_map(|work| desk.step(work)).map(|row| bits(&row)).collect();
            println!("\nRESULT {:?}", rows.concat());
        }
        None => {
            if gpu().is_none() || !is_emulated() {
                return;
            }
            let run = |driver| line("run", &[("TRIBUNAL_EMULATED_DRIVER", driver)]);
            let expected = run("12020");
            for driver in ["12040", "12090", "13000"] {
                assert!(run(driver) == expected, "{driver}");
            }
            let refused = |driver, sm| {
                line("refused", &[("TRIBUNAL_EMULATED_DRIVER", driver), ("TRIBUNAL_EMULATED_SM", sm)])
            };
            let older = refused("12010", "90");
            let sentence = "the driver supports CUDA 12.1, and this binary needs 12.2";
            assert!(older.contains(sentence) && older.ends_with("of version 535 or later"), "{older}");
            // 12.8 for machine code, 12.9 for PTX, whichever the binary has.
            let blackwell = refused("12040", "100");
            let sentence = "the driver supports CUDA 12.4, and this binary needs 12.";
            assert!(
                blackwell.contains(sentence) && blackwell.contains(" on `Emulated sm_100"),
                "{blackwell}"
            );
            // Ordinary tensor cores of Hopper's arithmetic.
            assert!(line("run", &[("TRIBUNAL_EMULATED_SM", "100")]) == expected, "capability 10.0");
        }
    }
}

/// Fewer launches for KV splits and experts, on a card of capability 10.0.
#[test]
fn new_kernels_without_tma_have_the_same_bits() {
    if part().is_none() {
        if gpu().is_some() && is_emulated() {
            assert_eq!(line_of(WITHOUT_TMA, "run", &[("TRIBUNAL_EMULATED_SM", "100")]), "alike");
        }
        return;
    }
    let Some(Device::Cuda(card)) = gpu() else { panic!("an emulated card") };
    assert!(!card.has_tma());
    let [auto, new] = [KernelSet::Auto, KernelSet::New].map(|set| {
        let mut model = load_on(&Device::Cuda(card.with_kernels(set).without_graphs()), "qwen3-moe");
        let mut desk = Desk::new(&mut *model, &sequences(&[300, 9]), KvType::Bf16);
        let steps: [&[(usize, usize)]; 3] = [&[(0, 298), (1, 7)], &[(0, 1), (1, 1)], &[(0, 1), (1, 1)]];
        steps.into_iter().flat_map(|work| desk.step(work)).map(|row| bits(&row)).collect::<Vec<_>>()
    });
    assert!(auto == new);
    println!("\nRESULT alike");
}
