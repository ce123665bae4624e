//! Memory of a GPU: the computed need equals the use, a byte less fails at the start with an error that names
//! the size that would fit, and no later allocation ends a run for lack of memory. Each case is a process of
//! its own with an emulated card of its own.
#![allow(clippy::print_stdout, reason = "what a process of its own found out is read from its output")]

use tribunal_cpu::Compute;
use tribunal_cuda::{Gpu, step_bytes};
use tribunal_engine::{Device, Engine, Options, tokenizer::Tokenizer};
use tribunal_model::{
    BLOCK, Config, KvType, Model, Part, Step, StepLimits, Weights,
    families::from_json,
    sampler::{SampleRequest, SamplingParams},
};

use super::{again, gpu, is_emulated, launches, part};
use crate::{
    engine::tiny,
    model::{Desk, bits, load_on},
    model_adapters::adapter,
};

/// Numbers that are always the same (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % n as u64) as usize
    }
}

/// A shape of those that `tribunal-bench` measures.
fn shape(name: &str) -> Config {
    let shapes: serde_json::Value =
        serde_json::from_str(include_str!("../../../../bench/src/shapes.json")).unwrap();
    from_json("shapes.json", &shapes[name]).unwrap()
}

const MOST: StepLimits = StepLimits { rows: 44, wanted: 20, sequences: 12, context: 320 };
const OWN: usize = MOST.context / BLOCK;

/// A model with room for steps of [`MOST`] and a cache for all sequences.
fn ready(gpu: &Gpu) -> Result<Box<dyn Model>, tribunal_model::Error> {
    let mut model = load_on(&Device::Cuda(gpu.clone()), "qwen2");
    for name in ["qwen2-all", "qwen2-qv"] {
        model.adapt(&adapter(name))?;
    }
    let before = gpu.memory()?.0;
    let bytes = model.runtime().step_bytes(MOST);
    model.runtime_mut().prepare(MOST)?;
    assert_eq!(before - gpu.memory()?.0, bytes, "what is reckoned is what is taken");
    model.runtime_mut().reserve(MOST.sequences * OWN, KvType::Bf16)?;
    Ok(model)
}

/// A random step: prompts and answers mixed, or one token of some sequences, which comes again and is
/// recorded.
fn step(draw: &mut Draw, tokens: &[u32]) -> Step {
    let blocks: Vec<u32> = (0..(MOST.sequences * OWN) as u32).collect();
    let decodes = draw.below(3) > 0;
    let n_parts = 1 + draw.below(MOST.sequences);
    let (mut rows, mut wanted) = (MOST.rows, MOST.wanted);
    let mut parts = Vec::new();
    for blocks in blocks.chunks(OWN).take(n_parts) {
        let position = if decodes { 40 } else { draw.below(MOST.context) };
        let longest = if draw.below(4) == 0 { 40 } else { 4 };
        let n = if decodes { 1 } else { 1 + draw.below(longest) };
        let n = n.min(MOST.context - position).min(rows);
        let n_logits = if decodes { 1 } else { draw.below(n + 1) }.min(wanted);
        let n_states = if decodes { 0 } else { draw.below(2) * draw.below(n + 1) };
        (rows, wanted) = (rows - n, wanted - n_logits);
        let adapter = [None, None, Some(0), Some(1)][draw.below(4)];
        let (logits_from, states_from) = (n - n_logits, n - n_states);
        if n > 0 {
            let state = None;
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
    let copies = if draw.below(5) == 0 { vec![(0, 1)] } else { Vec::new() };
    Step::new(parts, copies).at_depths([1])
}

fn run_steps(gpu: &Gpu, n_steps: usize) {
    let mut model = ready(gpu).unwrap();
    let left = gpu.memory().unwrap().0;
    let (mut draw, tokens) = (Draw(1), vec![7; MOST.context]);
    let vocab = model.config().vocab;
    for i in 0..n_steps {
        let step = step(&mut draw, &tokens);
        let (n_wanted, n_noted) = (step.wanted.len(), step.noted.len());
        model.run(step).unwrap();
        let noted: usize = model.hidden_states().iter().map(Vec::len).sum();
        assert_eq!(noted, n_noted * model.config().hidden, "step {i}");
        let mask = (draw.below(2) == 0).then(|| vec![u32::MAX; vocab.div_ceil(32)]);
        let how = SamplingParams { mask, temperature: 1.0, top_p: 0.9, draw: 0.5 };
        model.runtime().take(&vec![SampleRequest::Choose(how); n_wanted]).unwrap();
        let ids = [3, 5, 7];
        let rows: Vec<(usize, &[u32])> = (0..n_wanted).map(|row| (row, &ids[..])).collect();
        assert_eq!(model.runtime().logprobs(&rows).unwrap().len(), n_wanted);
    }
    assert_eq!(gpu.memory().unwrap().0, left, "steps allocate nothing");
    let larger = StepLimits { rows: MOST.rows + 30, ..MOST };
    let blocks: Vec<u32> = (0..OWN as u32).collect();
    let tokens = &tokens[..larger.rows];
    let part = Part {
        tokens,
        position: 0,
        blocks: &blocks,
        logits_from: 70,
        states_from: 74,
        adapter: None,
        state: None,
    };
    let error = model.run(Step::new([part], Vec::new())).unwrap_err().to_string();
    assert!(error.contains("larger than the room that was made"), "{error}");
}

/// Steps of random sizes on a card that has to the byte the computed memory: `TRIBUNAL_STEPS` of them.
#[test]
fn steps_run_in_exactly_the_memory_that_is_reckoned() {
    const NAME: &str = "memory::steps_run_in_exactly_the_memory_that_is_reckoned";
    let Some(Device::Cuda(gpu)) = gpu().filter(|_| is_emulated()) else { return };
    let n_steps = std::env::var("TRIBUNAL_STEPS").map_or(150, |n| n.parse().unwrap());
    match part().as_deref() {
        Some("measure") => {
            // Weights with a product of their own, and no adapters: the shape alone determines the memory of
            // steps.
            let seeded = Weights::seeded(shape("tiny"), 3);
            let plain = Device::Cuda(gpu.clone()).load(&seeded, Compute::default()).unwrap();
            assert_eq!(plain.runtime().step_bytes(MOST), step_bytes(plain.config().into(), MOST));
            drop(plain);
            let model = ready(&gpu.with_buffers(false)).unwrap();
            let (free, all) = gpu.memory().unwrap();
            println!("\ntook {}", all - free);
            drop(model);
        }
        Some("graphs") => {
            run_steps(&gpu.with_buffers(false), n_steps);
            assert!(gpu.whole_steps() > 0, "no step was launched whole");
        }
        Some("no graphs") => run_steps(&gpu.with_buffers(false).without_graphs(), n_steps),
        Some(_) => println!("\nrefused: {}", ready(&gpu.with_buffers(false)).err().unwrap()),
        None => {
            let (said, passed) = again(NAME, "measure", &[]);
            assert!(passed, "{said}");
            let took = said.lines().find_map(|line| line.strip_prefix("took ")).unwrap();
            let took: usize = took.parse().unwrap();
            for part in ["graphs", "no graphs"] {
                let (said, passed) = again(NAME, part, &[("TRIBUNAL_EMULATED_MEMORY", &took.to_string())]);
                assert!(passed, "{part}: {said}");
            }
            let (said, passed) =
                again(NAME, "less", &[("TRIBUNAL_EMULATED_MEMORY", &(took - 1).to_string())]);
            let refused = "refused: out of GPU memory for the KV cache: need";
            assert!(passed && said.contains(refused) && said.contains("MiB free; hint: "), "{said}");
        }
    }
}

/// Bytes that are left unplanned.
const SPARE: usize = 512 << 20;

/// Tokens of a prompt for [`Part`]s of shapes.
const PROMPT: usize = 8192;

/// A 7B and a 32B with default options on a card of 80 GB: the free memory equals the reserve, and the
/// largest steps of all kinds change nothing about it.
#[test]
fn models_of_7b_and_32b_hold_their_memory_on_a_card_of_80_gb() {
    const NAME: &str = "memory::models_of_7b_and_32b_hold_their_memory_on_a_card_of_80_gb";
    let Some(Device::Cuda(gpu)) = gpu().filter(|_| is_emulated()) else { return };
    let Some(name) = part() else {
        for name in ["qwen2.5-7b", "qwen2.5-32b", "llama-3.1-8b"] {
            // Memory of a card of 80 GB available to programs, less the driver's reserve for a context.
            let memory = ((79_usize << 30) - (500 << 20)).to_string();
            let variables =
                [("TRIBUNAL_EMULATED_MEMORY", memory.as_str()), ("TRIBUNAL_EMULATED_HOLLOW", "1")];
            let (said, passed) = again(
                NAME,
                name,
                &[&variables[..], &[("TRIBUNAL_EMULATED_GRAPH_BYTES", "2097152")]].concat(),
            );
            assert!(passed, "{name}: {said}");
        }
        return;
    };
    let gpu = gpu.with_buffers(false);
    let (config, all) = (shape(&name), gpu.memory().unwrap().1);
    let options = Options { most_rows: 1024, ..Options::on(Device::Cuda(gpu.clone())) };
    let tokenizer =
        Tokenizer::from_json(&std::fs::read(tiny("qwen2").join("tokenizer.json")).unwrap(), None, None);
    let engine = Engine::over(&Weights::seeded(config.clone(), 1), tokenizer.unwrap(), &options).unwrap();
    let (facts, free) = (engine.facts().clone(), gpu.memory().unwrap().0);
    let (n_rows, rows) = (facts.n_rows, options.step_tokens + facts.n_rows);
    assert_eq!(n_rows, if name == "qwen2.5-32b" { 256 } else { 1024 }, "{name}: as many as suit the memory");
    let wanted = facts.sizes.logits_of(rows).clamp(n_rows, rows);
    let most = StepLimits { rows, wanted, sequences: n_rows, context: facts.context };
    let steps = step_bytes(facts.sizes, most);
    let loaded = all - free - facts.kv_bytes - steps;
    assert!(loaded.abs_diff(facts.weight_bytes) < 64 << 20, "{loaded} and {}", facts.weight_bytes);
    assert!((SPARE..SPARE + (64 << 20)).contains(&free), "{free} of {all} are left");
    let [loaded, cache, steps, free_mib] = [loaded, facts.kv_bytes, steps, free].map(|bytes| bytes >> 20);
    println!("{name}: {loaded} MiB of weights, {cache} of cache, {steps} of steps, {free_mib} free");
    drop(engine);

    let weights = Weights::seeded(config.clone(), 3);
    let mut model = Device::Cuda(gpu.clone()).load(&weights, options.compute).unwrap();
    model.runtime_mut().prepare(most).unwrap();
    model.runtime_mut().reserve(facts.kv_bytes / KvType::Bf16.block_bytes(&config), KvType::Bf16).unwrap();
    let tokens = vec![1; PROMPT];
    let blocks: Vec<u32> = (0..(facts.context.div_ceil(BLOCK)) as u32).collect();
    let part = |n: usize, position, n_logits, blocks| Part {
        tokens: &tokens[..n],
        position,
        blocks,
        logits_from: n - n_logits,
        states_from: n,
        adapter: None,
        state: None,
    };
    let answers = |n| (0..n).map(|row| part(1, 20, 1, &blocks[2 * row..2 * row + 2])).collect::<Vec<_>>();
    let prompt = part(PROMPT, facts.context - PROMPT, 0, &blocks);
    let scored = part(PROMPT, 0, wanted, &blocks);
    let noted = Part { states_from: 0, ..prompt };
    for parts in
        [vec![prompt], vec![scored], answers(256), answers(256), answers(256), answers(3), vec![noted]]
    {
        model.run(Step::new(parts, Vec::new()).at_depths([1, 20])).unwrap();
    }
    assert!(gpu.whole_steps() > 0, "no step was launched whole");
    assert!(gpu.memory().unwrap().0 >= free - (4 << 20), "only recordings take more");
}

/// All log-probabilities after all rows take one launch, and states one for each depth; both have the bits
/// that they have one by one.
#[test]
fn what_is_weighed_and_noted_takes_one_launch_and_has_the_same_bits() {
    const NAME: &str = "memory::what_is_weighed_and_noted_takes_one_launch_and_has_the_same_bits";
    let Some(gpu) = gpu().filter(|_| is_emulated()) else { return };
    if part().is_none() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace");
        let (said, passed) = again(NAME, "run", &[("TRIBUNAL_EMULATED_TRACE", trace.to_str().unwrap())]);
        assert!(passed, "{said}");
        return;
    }
    let trace = std::env::var("TRIBUNAL_EMULATED_TRACE").unwrap();
    let count = |kernel| launches(trace.as_ref(), kernel);
    let mut model = load_on(&gpu, "qwen2");
    model.runtime_mut().reserve(8, KvType::Bf16).unwrap();
    let (tokens, blocks): (Vec<u32>, Vec<u32>) = ((3..40).collect(), (0..8).collect());
    let part = |n: usize, states_from| Part {
        tokens: &tokens[..n],
        position: 0,
        blocks: &blocks,
        logits_from: n - 5,
        states_from,
        adapter: None,
        state: None,
    };
    let step = |n: usize| Step::new([part(n, 4)], Vec::new()).at_depths([1]);
    model.run(step(37)).unwrap();
    assert_eq!(count("take_rows_f32"), 2, "the wanted rows of the stream, and the noted ones");
    let noted = model.hidden_states().to_vec();
    let ids: Vec<Vec<u32>> = (0..5).map(|row| (0..10).map(|id| 17 * row + 5 * id).collect()).collect();
    let rows: Vec<(usize, &[u32])> = ids.iter().enumerate().map(|(row, ids)| (row, &ids[..])).collect();
    let together = model.runtime().logprobs(&rows).unwrap();
    assert_eq!(count("tail"), 1);
    for (&(row, ids), together) in rows.iter().zip(together) {
        for (&id, logprob) in ids.iter().zip(together.unwrap()) {
            let wants: Vec<SampleRequest> = (0..=row).map(|_| SampleRequest::Weigh(id)).collect();
            let alone = model.runtime().take(&wants).unwrap()[row].unwrap();
            assert_eq!(alone.logprob.to_bits(), logprob.to_bits(), "row {row}, token {id}");
        }
    }
    assert_eq!(model.runtime().logprobs(&[(5, &[1])]).unwrap(), [None], "no such row");
    let states = model.states(Step::new([part(37, 37)], Vec::new()), 1).unwrap();
    assert_eq!(bits(&noted[0]), bits(&states[4 * model.config().hidden..]));
}

/// Requests go to the device by a stream of their own, and the step's stream waits for them: if the driver
/// drops that wait, the earlier requests are computed again.
#[test]
fn a_wait_for_wants_that_is_missing_is_found() {
    const NAME: &str = "memory::a_wait_for_wants_that_is_missing_is_found";
    let Some(gpu) = gpu().filter(|_| is_emulated()) else { return };
    if part().is_none() {
        let run = |wait: &str| again(NAME, "run", &[("TRIBUNAL_EMULATED_FORGOTTEN_ASIDE", wait)]);
        let (said, passed) = run("1000000");
        assert!(passed, "none is forgotten: {said}");
        for wait in ["1", "2"] {
            let (said, passed) = run(wait);
            assert!(!passed && said.contains("is not what its logits say"), "{wait}: {said}");
        }
        return;
    }
    let mut model = load_on(&gpu, "qwen2");
    let sequences: [Vec<u32>; 1] = [(3..40).collect()];
    let mut desk = Desk::new(&mut *model, &sequences, KvType::Bf16);
    let logits = desk.step(&[(0, 37)]).pop().unwrap();
    let peak = logits.iter().copied().fold(f32::MIN, f32::max);
    let sum: f64 = logits.iter().map(|logit| f64::from(logit - peak).exp()).sum();
    for ids in [[1, 2], [30, 40], [50, 60]] {
        let logprobs = model.runtime().logprobs(&[(36, &ids)]).unwrap()[0].clone().unwrap_or_default();
        for (id, logprob) in ids.into_iter().zip(logprobs) {
            let expected = f64::from(logits[id as usize] - peak) - sum.ln();
            assert!((logprob - expected).abs() < 1e-4, "{logprob} is not what its logits say: {expected}");
        }
    }
}
