//! Hidden states: the same bits alone and in company, and read by a probe.

use tribunal_core::llm::{Chat, LinearProbe, Llm, ResponseFormat, Sampling, States, Token};
use tribunal_engine::{Device, Engine, Options};

use crate::model::tiny;

fn bits(states: &States) -> Vec<Vec<u32>> {
    states.states.iter().map(|depth| depth.iter().map(|x| x.to_bits()).collect()).collect()
}

/// Hidden states of some texts on a device, one after the other; they have the same bits all at once.
pub fn states_in_company(device: &Device) -> Vec<States> {
    let open = |prefix_cache| {
        let options = Options {
            prefix_cache,
            kv_bytes: Some(4 << 20),
            context: Some(256),
            ..Options::on(device.clone())
        };
        Engine::open(&tiny("qwen2"), &options).unwrap()
    };
    let (engine, plain) = (open(true), open(false));
    let ask = |engine: &Engine, i: usize| {
        let chat = Chat::plain(format!("English: one and {}\nGerman:", i % 3));
        engine.states(&chat, &format!(" eins und {i}{}", " noch".repeat(i)), &[1]).unwrap()
    };
    // The whole model's answers to the same prompts share the cache, but not the blocks of the first layer
    // alone.
    let answer = |engine: &Engine, i: usize| {
        let chat = Chat::plain(format!("English: one and {}\nGerman: eins und", i % 3));
        let sampling = Sampling { max_tokens: 5, ..Sampling::default() };
        engine.ask(&chat, &ResponseFormat::Text, &sampling).unwrap().tokens
    };
    let alone: Vec<States> = (0..12).map(|i| ask(&plain, i)).collect();
    let answers: Vec<Vec<Token>> = (0..12).map(|i| answer(&plain, i)).collect();
    let together: Vec<(States, Vec<Token>)> = std::thread::scope(|scope| {
        let ask = |i| {
            let (ask, answer, engine) = (&ask, &answer, &engine);
            [
                scope.spawn(move || (Some(ask(engine, i)), None)),
                scope.spawn(move || (None, Some(answer(engine, i)))),
            ]
        };
        let asked: Vec<_> = (0..12).map(ask).collect();
        let joined = asked.into_iter().map(|both| both.map(|asked| asked.join().unwrap()));
        joined.map(|[states, answer]| (states.0.unwrap(), answer.1.unwrap())).collect()
    });
    for ((a, answer), (b, beside)) in alone.iter().zip(&answers).zip(&together) {
        assert_eq!(bits(a), bits(b));
        assert_eq!(answer, beside);
        assert_eq!(a.states[0].len() % a.ends.len(), 0);
    }
    alone
}

#[test]
fn states_have_the_same_bits_alone_and_in_company() {
    let alone = states_in_company(&Device::Cpu);
    let options = Options { kv_bytes: Some(4 << 20), ..Options::default() };
    let engine = Engine::open(&tiny("qwen2"), &options).unwrap();
    let chat = Chat::plain("English: one\nGerman:");
    let width = alone[0].states[0].len() / alone[0].ends.len();
    let probe = LinearProbe { depths: vec![1], maps: vec![vec![1.0; width], vec![0.0; width]] };
    let reading = engine.read(&chat, " eins", &probe).unwrap().reading.unwrap();
    assert_eq!(reading.ends.last(), Some(&" eins".len()));
    assert!(reading.values.iter().all(|values| values[1].to_bits() == 0));
    let n_layers = engine.facts().n_layers;
    let error = engine.states(&chat, " eins", &[n_layers]).unwrap_err().to_string();
    assert!(error.contains(&format!("after {n_layers} layers of a model with {n_layers}")), "{error}");
}

#[test]
fn no_control_token_acts_in_a_plain_prompt() {
    let engine =
        Engine::open(&tiny("qwen2"), &Options { kv_bytes: Some(4 << 20), ..Options::default() }).unwrap();
    let ids = |chat: Chat| engine.prompt_ids(&chat).unwrap();
    assert!(ids(Chat::plain("a<|im_end|>")).len() > ids(Chat::raw("a<|im_end|>")).len());
    assert_eq!(ids(Chat::plain("a b")), ids(Chat::raw("a b")));
}
