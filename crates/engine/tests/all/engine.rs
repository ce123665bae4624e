//! The engine gives the same bytes whatever its neighbours are, and clear errors for unsupported requests.

use std::collections::BTreeMap;

use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::json;
use tribunal_core::llm::{
    CancellationToken, Chat, Counter, Error, Finish, Llm, Reply, ResponseFormat, Sampling, Scored, Usage,
};
use tribunal_cpu::{Activations, Compute, Isa};
use tribunal_engine::{Engine, Options};
use tribunal_model::KvType;

pub use crate::model::tiny;

pub fn options() -> Options {
    Options { kv_bytes: Some(8 << 20), context: Some(640), ..Options::default() }
}

/// Questions that share starts of all lengths, in several forms.
fn questions() -> Vec<(Chat, ResponseFormat, Sampling)> {
    let document = "The old bridge is closed until spring. Drivers take the ring road. ".repeat(3);
    let schema = json!({
        "type": "object",
        "properties": {
            "severity": {"enum": ["major", "minor"]},
            "span": {"type": "string", "substringOf": "text"},
            "score": {"type": "integer", "minimum": 0, "maximum": 100},
        },
        "required": ["severity", "span", "score"],
    });
    let ask = |i: usize| {
        let start = document.chars().take(20 + 17 * (i % 9)).collect::<String>();
        let chat = Chat::new().system("You judge.").user(format!("{start}{}", i / 3));
        let texts = BTreeMap::from([("text".to_owned(), document.clone())]);
        let form = match i % 3 {
            0 => ResponseFormat::Text,
            1 => ResponseFormat::Json { schema: schema.clone(), texts },
            _ => ResponseFormat::Choice(vec!["yes".into(), "no".into(), "yes, but".into()]),
        };
        let temperature = if i.is_multiple_of(2) { 0.0 } else { 0.8 };
        (
            chat,
            form,
            Sampling { temperature, seed: i as u64, max_tokens: 12 + 5 * (i % 20), ..Sampling::default() },
        )
    };
    (0..24).map(ask).collect()
}

/// The invariants of a reply: texts, tokens, every bit of every log-probability.
pub fn bits(reply: &Reply) -> (String, Vec<(u32, u64, u64)>, Finish) {
    let tokens = reply.tokens.iter().map(|t| (t.id, t.logprob.to_bits(), t.masked_logprob.to_bits()));
    (reply.text.clone(), tokens.collect(), reply.finish)
}

/// Sends all questions at once, in the given order, and returns the replies in the questions' own order.
pub fn ask_all(engine: &Engine, order: &[usize]) -> Vec<Reply> {
    let questions = questions();
    let mut replies: Vec<(usize, Reply)> = std::thread::scope(|scope| {
        let ask = |&i: &usize| {
            let (chat, form, sampling) = &questions[i];
            scope.spawn(move || (i, engine.ask(chat, form, sampling).unwrap()))
        };
        let threads: Vec<_> = order.iter().map(ask).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    replies.sort_by_key(|(i, _)| *i);
    replies.into_iter().map(|(_, reply)| reply).collect()
}

/// Bytes of a cache for one sequence of the full context and little else.
fn little_room(model: &str) -> usize {
    // One layer of the hybrids has keys and values; two have states, of which four fit beside them. Three
    // layers of latent attention have 48 numbers a token.
    if HYBRIDS.contains(&model) || model.starts_with("deepseek") { 250 * 1024 } else { 660 * 1024 }
}

const HYBRIDS: [&str; 3] = ["qwen3-5", "qwen3-5-moe", "qwen3-next"];

#[test]
fn replies_do_not_depend_on_batch_cache_threads_or_order() {
    let models = ["qwen2", "gemma3", "qwen3-moe", "glm4-moe", "gemma2", "qwen3-5", "qwen3-next"];
    for model in models.into_iter().chain(["gemma4", "gpt-oss", "deepseek-v2-lite", "deepseek-v3"]) {
        let forward: Vec<usize> = (0..24).collect();
        let backward: Vec<usize> = forward.iter().rev().copied().collect();
        let plain = Options { n_rows: 1, prefix_cache: false, drafts: false, threads: Some(1), ..options() };
        let expected: Vec<_> =
            ask_all(&Engine::open(&tiny(model), &plain).unwrap(), &forward).iter().map(bits).collect();
        let variants = [
            Options { n_rows: 1, ..options() },
            Options { n_rows: 2, ..options() },
            Options { n_rows: 3, drafts: false, ..options() },
            Options { n_rows: 7, step_tokens: 33, ..options() },
            Options { n_rows: 64, threads: Some(2), ..options() },
            // Room for one sequence of the full context and little else: prefixes are evicted all the time.
            Options { kv_bytes: Some(little_room(model)), step_tokens: 5, ..options() },
            Options { compute: Compute { tier: Isa::PORTABLE, ..Compute::default() }, ..options() },
            Options { n_rows: 64, prefix_cache: false, ..options() },
        ];
        for (i, variant) in variants.iter().enumerate() {
            let engine = Engine::open(&tiny(model), variant).unwrap();
            for order in [&forward, &backward] {
                let replies = ask_all(&engine, order);
                assert!(replies.iter().map(bits).eq(expected.iter().cloned()), "{model}: variant {i}");
                let sum = |part: fn(&Usage) -> usize| replies.iter().map(|r| part(&r.usage)).sum::<usize>();
                assert!(sum(|u| u.forced) > 20, "{model}: the schema forces its keys");
                let guesses = (sum(|u| u.drafted), sum(|u| u.accepted));
                if variant.n_rows == 1 && ["qwen2", "gemma3"].contains(&model) {
                    assert!(guesses.0 > guesses.1 && guesses.1 > 0, "{model}: right and wrong, {guesses:?}");
                } else if !variant.drafts {
                    assert_eq!(guesses, (0, 0));
                }
            }
        }
    }
}

#[test]
fn constrained_answers_are_valid_however_short_the_budget() {
    let engine = Engine::open(&tiny("qwen3"), &options()).unwrap();
    let replies = ask_all(&engine, &(0..24).collect::<Vec<_>>());
    let whole = |(i, reply): (usize, &Reply)| match i % 3 {
        1 if reply.finish == Finish::Length => 0,
        1 => {
            let value: serde_json::Value = serde_json::from_str(&reply.text).unwrap();
            let document = "The old bridge is closed until spring. Drivers take the ring road. ".repeat(3);
            assert!(document.contains(value["span"].as_str().unwrap()));
            1
        }
        2 => usize::from(["yes", "no", "yes, but"].contains(&reply.text.as_str())),
        _ => 0,
    };
    let n_whole: usize = replies.iter().enumerate().map(whole).sum();
    assert!(n_whole >= 12, "{n_whole} of 16 forms came out whole");
}

#[test]
fn weighing_an_answer_gives_the_log_probabilities_of_generating_it() {
    let exact = Compute { activations: Activations::Float, ..Compute::default() };
    for compute in [Compute::default(), exact] {
        let engine =
            Engine::open(&tiny("llama"), &Options { compute, kv: KvType::F32, ..options() }).unwrap();
        let chat = Chat::new().user("Is it good?");
        let reply = engine
            .ask(&chat, &ResponseFormat::Text, &Sampling { max_tokens: 9, ..Sampling::default() })
            .unwrap();
        // Tokens of a text of random bytes need not decode to the text; single letters do.
        let given = ["a".to_owned(), "yes".to_owned(), String::new()];
        let scored = engine.score_continuations(&chat, &given).unwrap();
        assert_eq!(scored.iter().map(|w| !w.tokens.is_empty()).collect::<Vec<_>>(), [true, true, false]);
        let again = engine.score_continuations(&chat, &given).unwrap();
        assert_eq!(scored_bits(&scored), scored_bits(&again));
        let first = &reply.tokens[0];
        if first.text.len() == 1 && first.text.is_ascii() {
            let alone = engine.score_continuations(&chat, std::slice::from_ref(&first.text)).unwrap();
            assert_eq!(alone[0].tokens[0].logprob.to_bits(), first.logprob.to_bits());
        }
    }
}

/// Ids and every bit of the log-probabilities of scored texts.
fn scored_bits(scored: &[Scored]) -> Vec<Vec<(u32, u64)>> {
    let bits = |w: &Scored| w.tokens.iter().map(|t| (t.id, t.logprob.to_bits())).collect();
    scored.iter().map(bits).collect()
}

#[test]
fn texts_weighed_together_have_the_bits_of_each_weighed_alone() {
    let small = |variant: &Options, model: &str| Options {
        kv_bytes: variant.kv_bytes.or(Some(little_room(model))),
        ..variant.clone()
    };
    let variants = [
        options(),
        Options { n_rows: 1, ..options() },
        Options { n_rows: 3, step_tokens: 7, ..options() },
        Options { prefix_cache: false, ..options() },
        // Room for little more than one sequence: prefixes that chains share are evicted and computed again.
        Options { kv_bytes: None, ..options() },
    ];
    for model in ["qwen2", "gemma3", "qwen3-5-moe"] {
        let alone =
            Engine::open(&tiny(model), &Options { prefix_cache: false, n_rows: 1, ..options() }).unwrap();
        let engines: Vec<Engine> = variants
            .iter()
            .map(|variant| Engine::open(&tiny(model), &small(variant, model)).unwrap())
            .collect();
        let text =
            prop::collection::vec(prop::sample::select(vec!["1", "2", "0", "}", "ab", "é", " "]), 0..7);
        let texts = prop::collection::vec(text.prop_map(|parts| parts.concat()), 1..12);
        let config = ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() };
        let check = |(texts, prompt): (Vec<String>, String)| {
            let chat = Chat::plain(format!("Rate this: {prompt}"));
            let one = |text: &String| {
                alone.score_continuations(&chat, std::slice::from_ref(text)).unwrap().remove(0)
            };
            let expected: Vec<Scored> = texts.iter().map(one).collect();
            for engine in &engines {
                let together = engine.score_continuations(&chat, &texts).unwrap();
                prop_assert!(together.iter().map(|w| &w.text).eq(&texts));
                prop_assert_eq!(scored_bits(&together), scored_bits(&expected));
            }
            Ok(())
        };
        TestRunner::new(config).run(&(texts, "[a-c ]{0,40}"), check).unwrap();
    }
}

#[test]
fn the_tree_of_numbers_takes_eleven_rows() {
    let engine = || Engine::open(&tiny("qwen2"), &options()).unwrap();
    let chat = Chat::new().user("How good is it, from 0 to 100?");
    let numbers: Vec<String> = (0..=100).map(|n: u32| n.to_string()).collect();
    let sum = |scored: &[Scored]| {
        let mut usage = Usage::default();
        for w in scored {
            usage += &w.usage;
        }
        usage
    };
    let tree = engine();
    let together = tree.score_continuations(&chat, &numbers).unwrap();
    let each = engine();
    let alone: Vec<Scored> = numbers
        .iter()
        .map(|n| each.score_continuations(&chat, std::slice::from_ref(n)).unwrap().remove(0))
        .collect();
    assert_eq!(scored_bits(&together), scored_bits(&alone));
    let (before, after, n_prompt) = (sum(&alone), sum(&together), tree.count(&chat).unwrap());
    // Each alone computes the prompt's last token again, and its own except the last.
    assert_eq!(before.computed, n_prompt + 100 + (90 + 2));
    // 1 to 9, and the 0 of 10; the prompt's last row gives all first digits.
    assert_eq!(after.computed, n_prompt + 9 + 1);
    assert_eq!((after.computed, after.cached, after.generated), (after.distinct, 0, 0));
    let again = sum(&tree.score_continuations(&chat, &numbers).unwrap());
    assert_eq!((again.computed, again.cached, again.distinct), (1 + 10, n_prompt - 1, 0));
    // Closed by a brace, there is a row behind each number.
    let closed: Vec<String> = numbers.iter().map(|n| format!("{n}}}")).collect();
    assert_eq!(sum(&engine().score_continuations(&chat, &closed).unwrap()).computed, n_prompt + 10 + 90 + 1);
    assert!(engine().score_continuations(&chat, &[]).unwrap().is_empty());
}

#[test]
fn control_tokens_in_a_message_are_plain_text() {
    let engine = Engine::open(&tiny("qwen2"), &options()).unwrap();
    let ids = |text: &str| engine.prompt_ids(&Chat::new().user(text)).unwrap();
    let ends = |ids: &[u32]| ids.iter().filter(|id| engine.tokenizer().is_control(**id)).count();
    assert_eq!(ends(&ids("a b")), ends(&ids("a <|im_end|> b")));
    assert!(ids("a <|im_end|> b").len() > ids("a b").len());
}

#[test]
fn a_prompt_that_is_too_long_is_refused_and_the_engine_goes_on() {
    let engine = Engine::open(&tiny("qwen2"), &options()).unwrap();
    let long = engine.ask(&Chat::new().user("x".repeat(2000)), &ResponseFormat::Text, &Sampling::default());
    assert!(matches!(long, Err(Error::TooLong { context: 640, .. })), "{long:?}");
    // No tokens are so long that these would fit: they are not tokenized.
    for text in [Chat::new().user("x".repeat(1 << 20)), Chat::plain("x".repeat(1 << 20))] {
        let refused = engine.prompt_ids(&text);
        assert!(matches!(refused, Err(Error::TooManyBytes { bytes: 1_048_576, context: 640, .. })));
    }
    let scored = engine.score_continuations(&Chat::plain("x"), &["x".repeat(1 << 20)]);
    assert!(matches!(scored, Err(Error::TooManyBytes { .. })));
    let short = engine.ask(
        &Chat::new().user("x"),
        &ResponseFormat::Text,
        &Sampling { max_tokens: 2, ..Sampling::default() },
    );
    assert!(short.is_ok());
}

#[test]
fn stop_strings_end_the_answer_and_are_cut() {
    let engine = Engine::open(&tiny("mistral"), &options()).unwrap();
    let chat = Chat::new().user("Say something.");
    let free = Sampling { max_tokens: 24, ..Sampling::default() };
    let whole = engine.ask(&chat, &ResponseFormat::Text, &free).unwrap().text;
    // Bytes that are not text decode to replacement characters, which no stop string can match.
    let letters: Vec<char> = whole.chars().collect();
    let stop: String = letters.windows(2).find(|w| w.iter().all(char::is_ascii)).unwrap().iter().collect();
    let cut =
        engine.ask(&chat, &ResponseFormat::Text, &Sampling { stop: vec![stop.clone()], ..free }).unwrap();
    assert_eq!(cut.finish, Finish::Stop);
    assert_eq!(cut.text, whole[..whole.find(&stop).unwrap()]);
}

#[test]
fn too_small_a_cache_is_refused_before_anything_runs() {
    let small = Options { kv_bytes: Some(50_000), ..options() };
    let error = Engine::open(&tiny("qwen2"), &small).err().unwrap().to_string();
    assert!(error.contains("one sequence of 640 needs 1MiB"), "{error}");
    // Two recurrent states of 21 kB each, and a block of 4 KiB.
    let error = Engine::open(&tiny("qwen3-5"), &small).err().unwrap().to_string();
    assert!(error.contains("holds 16 tokens, but one sequence of 640 needs 1MiB"), "{error}");
}

#[test]
fn nobody_waits_for_answers_that_are_not_wanted_any_more() {
    let order: Vec<usize> = (0..24).collect();
    let fresh = Engine::open(&tiny("qwen2"), &options()).unwrap();
    let expected: Vec<_> = ask_all(&fresh, &order).iter().map(bits).collect();
    // Two rows and a small step: some questions are being answered at the cancellation, and most wait.
    let options = Options { n_rows: 2, step_tokens: 16, ..options() };
    let engine = Engine::open(&tiny("qwen2"), &options).unwrap();
    let stop = CancellationToken::default();
    let until = engine.until(&stop);
    let endless = Sampling { max_tokens: 300, ..Sampling::default() };
    // More letters than the context has room for: no answer to it ends by itself.
    let form = ResponseFormat::Regex("[a-z]{400}".into());
    let ask = |i: usize| {
        let chat = Chat::new().user(format!("{}{i}", "A long way to go. ".repeat(12)));
        until.ask(&chat, &form, &endless)
    };
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..40).map(|i| scope.spawn(move || ask(i))).collect();
        let scored = scope
            .spawn(|| until.score_continuations(&Chat::new().user("and"), &vec!["so on".to_owned(); 20]));
        stop.cancel();
        let answers = asked.into_iter().map(|asked| asked.join().unwrap());
        assert!(answers.filter(|answer| *answer == Err(Error::Interrupted)).count() > 30);
        assert!(matches!(scored.join().unwrap(), Ok(_) | Err(Error::Interrupted)));
    });
    assert_eq!(until.ask(&Chat::new().user("?"), &ResponseFormat::Text, &endless), Err(Error::Interrupted));
    let again: Vec<_> = ask_all(&engine, &order).iter().map(bits).collect();
    assert_eq!(again, expected, "others are answered as by an engine that nobody left");
}
