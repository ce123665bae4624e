//! Training on tiny models: the forward pass against the engine's, every gradient against finite differences, and the
//! loop from start to end, killed and not.

use std::{collections::BTreeSet, ops::Range, path::Path};

use candle_core::Tensor;
use tempfile::TempDir;

use super::{
    answers::Answers,
    draw,
    encoded::Encoded,
    forward::{Batch, Upper},
    lora::{Adapters, Spec},
    lower::Lower,
    state::{self, State},
    task::Task,
    train::{Event, Recipe, Training},
};
use crate::{
    judges::Granularity,
    model::{
        Adapter, BLOCK, Compute, Device, KvType, Part, Step, Weights, adapter::Module, cpu::Activations,
    },
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn weights(name: &str) -> Weights {
    Weights::open(&root().join("models/tiny").join(name)).unwrap()
}

/// Texts that begin alike, with answers that follow from their last prompt token.
fn examples(vocab: usize, n: usize) -> Vec<Encoded> {
    let one = |i: usize| {
        let mut ids: Vec<u32> = (0..9).map(|at| (at * 7 + 3) % 50).collect();
        ids.extend((0..3 + i % 4).map(|at| (draw::bits(1, i as u64, at as u64) % 40) as u32));
        ids.push((i % 5) as u32 + 60);
        let n_prompt = ids.len();
        ids.extend((0..3).map(|at| ((i % 5) * 3 + at) as u32 + 100));
        assert!(ids.iter().all(|&id| (id as usize) < vocab));
        Encoded { ids, n_prompt, granularity: Granularity::Seg }
    };
    (0..n).map(one).collect()
}

fn spec(layers: Range<usize>, dropout: f32) -> Spec {
    Spec { rank: 4, alpha: 8.0, modules: Module::ALL.to_vec(), dropout, layers }
}

fn recipe() -> Recipe {
    Recipe {
        n_steps: 30,
        batch: 5,
        max_rows: 40,
        rate: 0.01,
        warm_up: 3,
        weight_decay: 0.01,
        clip: 1.0,
        every: 6,
        patience: 100,
        seed: 4,
    }
}

/// A tiny model's upper layers with adapters, and examples to train them on.
struct Stage {
    upper: Upper,
    adapters: Adapters,
    task: Answers,
    folder: TempDir,
    first: usize,
    name: &'static str,
}

impl Stage {
    fn new(name: &'static str, first: usize, n: usize, dropout: f32) -> Self {
        let weights = weights(name);
        let layers = first..weights.config().n_layers;
        let upper = Upper::load(&weights, layers.clone()).unwrap();
        let adapters = Adapters::new(spec(layers, dropout), weights.config(), 5).unwrap();
        let task = Answers(examples(weights.config().vocab, n));
        Self { upper, adapters, task, folder: tempfile::tempdir().unwrap(), first, name }
    }

    /// Numbers in `b` too, so that every gradient is there.
    fn unsettled(self) -> Self {
        let values = self.adapters.tensors().into_iter().enumerate().map(|(i, (_, var))| {
            (0..var.elem_count() as u64).map(|at| 0.2 * (draw::unit(9, i as u64, at) - 0.5)).collect()
        });
        state::set(&self.adapters, &values.collect::<Vec<_>>()).unwrap();
        self
    }

    fn training(&self, recipe: Recipe, n_train: usize) -> Training<'_> {
        let exact = Compute { activations: Activations::Float, ..Compute::default() };
        let model = || Ok(Device::Cpu.load(&weights(self.name), exact)?);
        let hidden = self.upper.config().hidden;
        let name = format!("{}-{}", self.name, self.first);
        let lower = Lower::open(
            self.folder.path(),
            &name,
            &self.task.texts(),
            (self.first, hidden),
            model,
            &mut |_, _| {},
        )
        .unwrap();
        Training {
            recipe,
            upper: &self.upper,
            adapters: &self.adapters,
            lower,
            task: &self.task,
            n_train,
            state_path: self.folder.path().join("state.safetensors"),
            digest: "a test".into(),
        }
    }

    fn train(&self, recipe: Recipe, mut steps: usize) -> (State, Vec<Event>) {
        let mut events = Vec::new();
        let n_train = self.task.len() - 5;
        let state = self.training(recipe, n_train).run(
            &mut |event| {
                events.push(event.clone());
                Ok(())
            },
            &mut || {
                steps = steps.saturating_sub(1);
                steps > 0
            },
        );
        (state.unwrap(), events)
    }
}

/// Logits of the rows of answers: ours over all layers, with an adapter or without, against the engine's.
fn check_logits(name: &str, adapter: Option<&str>) {
    let weights = weights(name);
    let c = weights.config().clone();
    let exact = Compute { activations: Activations::Float, ..Compute::default() };
    for first in 0..c.n_layers {
        let stage = Stage::new(Box::leak(name.to_owned().into_boxed_str()), first, 6, 0.0);
        let adapter =
            adapter.map(|name| Adapter::read(&root().join("tests/golden/adapters").join(name)).unwrap());
        let mut adapters = Adapters::new(Spec { modules: Vec::new(), ..spec(0..0, 0.0) }, &c, 0).unwrap();
        if let Some(adapter) = adapter.as_ref().filter(|_| first == 0) {
            adapters = Adapters::import(adapter).unwrap();
        }
        let mut model = Device::Cpu.load(&weights, exact).unwrap();
        model.reserve(8, KvType::F32).unwrap();
        let number = adapter.as_ref().filter(|_| first == 0).map(|adapter| model.adapt(adapter).unwrap());
        let (mut theirs, mut rows) = (Vec::new(), Vec::new());
        for example in &stage.task.0 {
            let tokens = example.text().tokens;
            let blocks: Vec<u32> = (0..tokens.len().div_ceil(BLOCK) as u32).collect();
            let logits_from = example.n_prompt - 1;
            let part = Part {
                tokens,
                position: 0,
                blocks: &blocks,
                logits_from,
                states_from: tokens.len(),
                adapter: number,
            };
            model.run(Step::new([part], Vec::new())).unwrap();
            theirs.extend(model.logits().unwrap().concat());
            rows.extend(model.states(Step::new([part], Vec::new()), first).unwrap());
        }
        let batch = Batch {
            n_shared: 0,
            n_own: stage.task.texts().iter().map(|text| text.tokens.len()).collect(),
            wanted: stage.task.texts().iter().map(|t| (t.wanted_from..t.tokens.len()).collect()).collect(),
        };
        let x = Tensor::from_vec(rows.clone(), (rows.len() / c.hidden, c.hidden), &candle_core::Device::Cpu);
        let h = stage.upper.forward(x.unwrap(), &batch, &adapters, None).unwrap();
        let ours = stage.upper.head().unwrap().forward(&h.flatten_all().unwrap().to_vec1::<f32>().unwrap());
        assert_eq!(ours.len(), theirs.len());
        let scale = theirs.iter().fold(1.0_f32, |most, x| most.max(x.abs()));
        let worst = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < 1e-3 * scale, "{name} from layer {first}: {worst} of {scale}");
    }
}

#[test]
fn logits_are_the_engines() {
    for name in ["qwen2", "llama", "qwen3", "gemma3", "mistral"] {
        check_logits(name, None);
    }
}

#[test]
fn logits_with_adapters_are_the_engines() {
    check_logits("qwen2", Some("qwen2-all"));
    check_logits("gemma3", Some("gemma3-mlp"));
}

/// What leaves layers in the middle is what the model's own do, of exactly the rows that are wanted.
#[test]
fn states_in_the_middle_are_the_models() {
    for (name, layers) in [("qwen2", 0..1), ("gemma3", 0..3), ("gemma3", 2..3)] {
        let weights = weights(name);
        let c = weights.config().clone();
        let exact = Compute { activations: Activations::Float, ..Compute::default() };
        let mut model = Device::Cpu.load(&weights, exact).unwrap();
        model.reserve(8, KvType::F32).unwrap();
        let upper = Upper::load(&weights, layers.clone()).unwrap();
        assert!(upper.head().is_none());
        let adapters = Adapters::new(Spec { modules: Vec::new(), ..spec(0..0, 0.0) }, &c, 0).unwrap();
        for example in examples(c.vocab, 4) {
            let tokens = example.text().tokens;
            let blocks: Vec<u32> = (0..tokens.len().div_ceil(BLOCK) as u32).collect();
            let n = tokens.len();
            let part =
                Part { tokens, position: 0, blocks: &blocks, logits_from: n, states_from: n, adapter: None };
            let mut states = |depth| model.states(Step::new([part], Vec::new()), depth).unwrap();
            let (below, above) = (states(layers.start), states(layers.end));
            let wanted: Vec<usize> = (example.n_prompt..n).collect();
            let expected: Vec<f32> =
                wanted.iter().flat_map(|at| &above[at * c.hidden..(at + 1) * c.hidden]).copied().collect();
            let batch = Batch { n_shared: 0, n_own: vec![n], wanted: vec![wanted] };
            let x = Tensor::from_vec(below, (n, c.hidden), &candle_core::Device::Cpu).unwrap();
            let ours = upper.forward(x, &batch, &adapters, None).unwrap();
            let ours = ours.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            let scale = expected.iter().fold(1.0_f32, |most, x| most.max(x.abs()));
            assert_eq!(ours.len(), expected.len());
            assert!(
                ours.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-4 * scale),
                "{name} {layers:?}"
            );
        }
    }
}

/// The summed loss of all examples.
fn summed(training: &mut Training<'_>) -> f64 {
    training.n_train = 0;
    let n = 3 * training.task.len();
    let loss = training.held_out_loss().unwrap() * n as f64;
    training.n_train = training.task.len();
    loss
}

#[test]
fn every_adapter_has_the_gradient_of_finite_differences() {
    for name in ["qwen2", "qwen3", "gemma3"] {
        let stage = Stage::new(name, 0, 6, 0.0).unsettled();
        let mut training = stage.training(Recipe { max_rows: 45, ..recipe() }, 6);
        let (_, gradients) = training.gradients(&[0, 1, 2, 3, 4, 5], 1).unwrap();
        let values = state::values(&stage.adapters).unwrap();
        for (i, (tensor, var)) in stage.adapters.tensors().into_iter().enumerate() {
            let norm = gradients[i].iter().map(|g| g * g).sum::<f32>().sqrt();
            assert!(norm > 1e-4, "{name}: {tensor} has a gradient of length {norm}");
            // Along the gradient the loss must rise as fast as the gradient is long.
            let moved = |by: f32| -> Vec<f32> {
                values[i].iter().zip(&gradients[i]).map(|(x, g)| x + by * g / norm).collect()
            };
            let mut at = |by: f32| {
                let tensor = Tensor::from_vec(moved(by), var.shape(), var.device()).unwrap();
                var.set(&tensor).unwrap();
                summed(&mut training)
            };
            let step = 0.02;
            let slope = (at(step) - at(-step)) / (2.0 * f64::from(step));
            at(0.0);
            let off = (slope - f64::from(norm)).abs() / f64::from(norm);
            assert!(off < 0.03, "{name}: {tensor}: slope {slope}, gradient {norm}");
        }
    }
}

#[test]
fn parts_of_a_step_give_the_gradient_of_the_whole() {
    let stage = Stage::new("qwen2", 1, 6, 0.0).unsettled();
    let of = |max_rows| {
        let mut training = stage.training(Recipe { max_rows, ..recipe() }, 6);
        training.gradients(&[0, 1, 2, 3, 4, 5], 1).unwrap().1
    };
    for (a, b) in of(1).iter().flatten().zip(of(1000).iter().flatten()) {
        assert!((a - b).abs() < 1e-4 * b.abs().max(1.0), "{a} {b}");
    }
}

#[test]
fn the_loss_falls_and_every_tensor_moves() {
    let stage = Stage::new("qwen2", 1, 25, 0.1);
    let before = state::values(&stage.adapters).unwrap();
    let (state, events) = stage.train(recipe(), usize::MAX);
    let losses: Vec<f64> = events
        .iter()
        .filter_map(|e| if let Event::Step { loss, .. } = e { Some(*loss) } else { None })
        .collect();
    assert_eq!(losses.len(), 30);
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    assert!(mean(&losses[25..]) < 0.95 * mean(&losses[..5]), "{losses:?}");
    let first =
        events.iter().find_map(|e| if let Event::HeldOut { loss, .. } = e { Some(*loss) } else { None });
    assert!(state.progress.best.unwrap().0 < 0.95 * first.unwrap());
    for ((name, _), (a, b)) in
        stage.adapters.tensors().iter().zip(before.iter().zip(state::values(&stage.adapters).unwrap()))
    {
        assert_ne!(*a, b, "{name} has not moved");
    }
}

#[test]
fn killed_and_resumed_gives_the_same_bytes() {
    let bytes = |kills: &[usize]| {
        let stage = Stage::new("qwen2", 1, 25, 0.1);
        for (i, steps) in kills.iter().enumerate() {
            if i > 0 {
                // A new process knows no values: it reads them.
                let values = state::values(&stage.adapters).unwrap();
                let wrong: Vec<Vec<f32>> = values.iter().map(|values| vec![0.5; values.len()]).collect();
                state::set(&stage.adapters, &wrong).unwrap();
            }
            stage.train(recipe(), *steps);
        }
        std::fs::read(stage.folder.path().join("state.safetensors")).unwrap()
    };
    let whole = bytes(&[usize::MAX]);
    assert_eq!(whole, bytes(&[usize::MAX]), "the same seed, the same bytes");
    assert_eq!(whole, bytes(&[4, 9, 2, usize::MAX]));
}

#[test]
fn states_that_were_left_half_done_are_finished() {
    let stage = Stage::new("qwen2", 1, 12, 0.0);
    let read = || std::fs::read(stage.folder.path().join("states-qwen2-1.bf16")).unwrap();
    drop(stage.training(recipe(), 12));
    let whole = read();
    for kept in [0, 1, whole.len() / 3, whole.len() - 1] {
        std::fs::remove_file(stage.folder.path().join("states-qwen2-1.bf16")).unwrap();
        std::fs::write(stage.folder.path().join("states-qwen2-1.part"), &whole[..kept]).unwrap();
        drop(stage.training(recipe(), 12));
        assert_eq!(read(), whole, "{kept} bytes were there");
    }
}

#[test]
fn another_training_does_not_go_on_from_here() {
    let stage = Stage::new("qwen2", 1, 10, 0.0);
    stage.train(recipe(), 3);
    let mut other = stage.training(recipe(), 5);
    other.digest = "another".into();
    let error = other.run(&mut |_| Ok(()), &mut || true).unwrap_err().to_string();
    assert!(error.contains("is the state of another training"), "{error}");
}

#[test]
fn an_epoch_takes_every_example_once() {
    let stage = Stage::new("qwen2", 1, 10, 0.0);
    let training = stage.training(recipe(), 10);
    let epoch = |first: usize| [training.chosen(first), training.chosen(first + 1)].concat();
    for first in [1, 3] {
        assert_eq!(epoch(first).into_iter().collect::<BTreeSet<_>>(), (0..10).collect());
    }
    assert_ne!(epoch(1), epoch(3));
}

/// Other prompt tokens change the loss through what is read, never as targets: with a head that sees only one row, the
/// loss of an answer is the same whatever stands before it.
#[test]
fn the_loss_ignores_the_prompt() {
    let stage = Stage::new("qwen2", 1, 4, 0.0);
    let mut training = stage.training(recipe(), 4);
    let (_, batch) = training.lower.batch(&training.task.texts(), &[0, 1, 2, 3]).unwrap();
    for (example, wanted) in stage.task.0.iter().zip(&batch.wanted) {
        assert_eq!(*wanted, (example.n_prompt - 1..example.ids.len() - 1).collect::<Vec<_>>());
        assert_eq!(example.targets(), &example.ids[example.n_prompt..]);
    }
    let total = training.gradients(&[0, 1, 2, 3], 1).unwrap().0;
    assert_eq!(total.n, 4 * 3);
}
