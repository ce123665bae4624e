//! The engine with random weights, for arbitrary answers.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use tribunal::{
    engine::{Engine, Options},
    llm::{
        self, Chat, Finish, Llm, Reply, ResponseFormat, Sampling, Scored, Token, TokenSource, Usage,
        is_chance,
    },
};

/// The folder of a tiny model.
pub fn tiny(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("models/tiny").join(name)
}

/// The engine over the tiny model of this name in `models/tiny`, with room for so many MiB of cache and
/// tokens.
pub fn tiny_engine(name: &str, cache_mib: usize, context: usize) -> Engine {
    let path = tiny(name);
    let options = Options { kv_bytes: Some(cache_mib << 20), context: Some(context), ..Options::default() };
    Engine::open(&path, &options).unwrap()
}

/// Gives any answer that the form allows. There is always one: `strict` has no free text.
pub struct Babble(pub Engine);

impl Llm for Babble {
    fn ask(&self, chat: &Chat, form: &ResponseFormat, sampling: &Sampling) -> Result<Reply, llm::Error> {
        assert_ne!(*form, ResponseFormat::Text, "{:?}", chat.messages().last());
        let bytes: u64 = chat.messages().iter().flat_map(|turn| turn.content.bytes()).map(u64::from).sum();
        let grammar = self.0.grammar(form)?.expect("a form that is not free text");
        let seed = sampling.seed ^ bytes;
        let text = super::random_answer(grammar, self.0.tokenizer(), seed as usize % 60, seed);
        let token = |&id: &u32| Token {
            id,
            text: String::from_utf8_lossy(self.0.tokenizer().bytes(id)).into_owned(),
            logprob: -1.0,
            masked_logprob: -1.0,
            source: TokenSource::Sampled,
        };
        let tokens = self
            .0
            .tokenizer()
            .encode_data(&text)
            .expect("a text without control tokens")
            .iter()
            .map(token)
            .collect();
        Ok(Reply { text, tokens, finish: Finish::Form, ..Reply::default() })
    }

    fn score_continuations(&self, chat: &Chat, continuations: &[String]) -> Result<Vec<Scored>, llm::Error> {
        self.0.score_continuations(chat, continuations)
    }
}

/// Gives every text tokens with these log-probabilities, under a vocabulary of so many.
pub struct Scores {
    pub logprobs: Vec<f64>,
    pub n_vocab: usize,
}

impl Llm for Scores {
    fn ask(&self, _: &Chat, _: &ResponseFormat, _: &Sampling) -> Result<Reply, llm::Error> {
        Err(llm::Error::NoSignal)
    }

    fn score_continuations(&self, _: &Chat, texts: &[String]) -> Result<Vec<Scored>, llm::Error> {
        let (text, source) = (String::from("a"), TokenSource::Sampled);
        let token =
            |&logprob: &f64| Token { id: 1, text: text.clone(), logprob, masked_logprob: logprob, source };
        let tokens: Vec<Token> = self.logprobs.iter().map(token).collect();
        let is_chance = is_chance(&tokens, self.n_vocab, &[]);
        let scored = |text: &String| {
            let (text, tokens) = (text.clone(), tokens.clone());
            Scored { text, tokens, reading: None, estimate: None, is_chance, usage: Usage::default() }
        };
        Ok(texts.iter().map(scored).collect())
    }
}

/// Answers of random weights, taken as if they carried a signal.
pub struct Noise(pub Arc<Engine>);

impl Llm for Noise {
    fn ask(&self, chat: &Chat, form: &ResponseFormat, sampling: &Sampling) -> Result<Reply, llm::Error> {
        Ok(Reply { is_chance: false, ..self.0.ask(chat, form, sampling)? })
    }

    fn score_continuations(&self, chat: &Chat, continuations: &[String]) -> Result<Vec<Scored>, llm::Error> {
        let scored = self.0.score_continuations(chat, continuations)?;
        Ok(scored.into_iter().map(|scored| Scored { is_chance: false, ..scored }).collect())
    }
}

/// Answers of random weights, of at most so many tokens.
pub struct Within(pub Arc<Engine>, pub usize);

impl Llm for Within {
    fn ask(&self, _: &Chat, form: &ResponseFormat, sampling: &Sampling) -> Result<Reply, llm::Error> {
        let sampling = Sampling { temperature: 1.0, max_tokens: self.1, ..sampling.clone() };
        Ok(Reply { is_chance: false, ..self.0.ask(&Chat::new().user("?"), form, &sampling)? })
    }

    fn score_continuations(&self, chat: &Chat, continuations: &[String]) -> Result<Vec<Scored>, llm::Error> {
        self.0.score_continuations(chat, continuations)
    }
}

/// Answers as [`Babble`] does, and collects the forms of its calls.
pub struct Collector {
    babble: Babble,
    forms: Mutex<BTreeMap<String, ResponseFormat>>,
}

impl Collector {
    /// Over an engine, without any form yet.
    pub fn over(engine: Engine) -> Self {
        Self { babble: Babble(engine), forms: Mutex::default() }
    }

    /// The engine, and the forms of its calls, each once.
    pub fn parts(self) -> (Engine, Vec<ResponseFormat>) {
        (self.babble.0, self.forms.into_inner().unwrap().into_values().collect())
    }
}

impl Llm for Collector {
    fn ask(&self, chat: &Chat, form: &ResponseFormat, sampling: &Sampling) -> Result<Reply, llm::Error> {
        if *form == ResponseFormat::Text {
            let sampling = Sampling { temperature: 1.0, max_tokens: 30, ..sampling.clone() };
            let reply = self.babble.0.ask(&Chat::new().user("?"), form, &sampling)?;
            return Ok(Reply { is_chance: false, ..reply });
        }
        self.forms.lock().unwrap().insert(format!("{form:?}"), form.clone());
        self.babble.ask(chat, form, sampling)
    }

    fn score_continuations(&self, _: &Chat, continuations: &[String]) -> Result<Vec<Scored>, llm::Error> {
        self.babble.score_continuations(&Chat::new().user("?"), continuations)
    }
}
