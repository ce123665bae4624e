//! The engine: an [`Llm`] that runs open weights in this process. It batches all requests in flight, computes
//! a prefix that they share once, and gives the same bytes whatever else is in the batch.
//!
//! In reading order: [`chat`] and [`tokenizer`] turn a conversation into ids; [`grammar`] masks tokens; a
//! [`sequence`] waits in the [`scheduler`], which shares blocks through [`radix`]; one of the [`workers`], a
//! [`worker`]'s loop on a device, runs the model; an [`answer`] is [generated](generate), with tokens guessed
//! by [`draft`], or consists of the [scores](score) of a given text.

pub mod answer;
pub mod branches;
pub mod chat;
pub mod device;
pub mod draft;
mod estimate;
pub mod generate;
pub mod grammar;
mod lookahead;
mod memory;
mod open;
mod pending;
pub mod radix;
mod readings;
pub mod saved;
pub mod scheduler;
pub mod score;
pub mod sequence;
mod signed;
mod spin_workers;
pub mod states;
pub mod stream;
pub mod tokenizer;
mod watch;
pub mod worker;
pub mod workers;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, mpsc::sync_channel},
    time::Duration,
};

use crate::{
    files::Stamp,
    llm::{
        CancellationToken, Chat, Confirmed, Counter, Estimate, Finish, LinearProbe, Llm, MetricTexts, Reply,
        ResponseFormat, Sampling, Scored, States, Token, Usage,
    },
    signature::Signature,
};

use tribunal_core::{files, jinja, llm, panics, signature};
use tribunal_cuda as cuda;
use tribunal_model::{self as model, BLOCK, Weights, estimator::Estimator, metric::Metric, score_head::Head};

/// Types of the fields of [`Options`].
pub use device::{Device, Error as DeviceError};
pub use tribunal_cpu::{Activations, Compute, Isa, baseline::missing, cores::n_threads, heap::keep_freed};
pub use tribunal_model::{
    Adapter, KvType, adapter,
    config::{EncoderConfig, ScoreHead},
    weights::Format,
};

pub use memory::{AttentionSizes, DeltaNetSizes, ExpertSizes, Need, Sizes, free_on_gpu};

use answer::{Answer, Task};
use branches::{Branches, Chain, Place};
use chat::ChatTemplate;
use generate::Generate;
use grammar::Vocabulary;
use pending::{Pending, gone};
use radix::{Prefix, Variant};
pub use saved::SavedPrefixes;
use score::Score;
use sequence::Request;
use tokenizer::Tokenizer;
use worker::Submission;
use workers::Workers;

/// Options of an engine. [`Facts::signature`] names every option that can move a score.
#[derive(Clone, Debug)]
pub struct Options {
    /// The device that runs the model.
    pub device: Device,
    /// Further GPUs like it, each with the same weights and a cache of its own.
    pub more_devices: Vec<Device>,
    /// The arithmetic of a CPU.
    pub compute: Compute,
    pub kv: KvType,
    /// Bytes of the KV cache; `None` takes a share of the free memory.
    pub kv_bytes: Option<usize>,
    /// Sequences in flight.
    pub n_rows: usize,
    /// More sequences in flight, up to so many, on a GPU whose memory suits them. 0: none.
    pub most_rows: usize,
    /// Prompt tokens of one step.
    pub step_tokens: usize,
    /// Positions of one sequence; `None` takes the model's, at most [`MAX_CONTEXT`].
    pub context: Option<usize>,
    pub prefix_cache: bool,
    /// Storage of a CPU's keys and values of announced prefixes ([`Llm::announce`]), for later runs.
    pub saved_prefixes: Option<SavedPrefixes>,
    /// Guess tokens ahead and let the model confirm them.
    pub drafts: bool,
    /// A GPU step that takes so long, and many times its expected time, ends all requests; `None` waits on.
    pub hung_after: Option<Duration>,
    /// One GPU step in so many is recomputed by the proven kernels; a difference ends all requests. 0: none.
    pub recheck_every: usize,
    /// Threads that compute; `None` takes one for each physical performance core.
    pub threads: Option<usize>,
    /// A chat template in place of the model's.
    pub chat_template: Option<String>,
    /// Further chat template variables (`{"enable_thinking": true}`); `enable_thinking` is false by default.
    pub chat_options: serde_json::Value,
    /// Tokens that end a turn, in addition to the model's own.
    pub stop_tokens: Vec<String>,
    /// Folders of adapters to load beside the model; [`Engine::with_adapter`] selects one.
    pub adapters: Vec<PathBuf>,
    /// An estimator over the model, which is then an encoder.
    pub estimator: Option<Arc<Estimator>>,
    /// Stamps of the weights' files, from when they were hashed; only these are loaded. Empty: any files.
    pub hashed: Vec<Stamp>,
}

/// Positions that a sequence gets by default when the model supports more.
pub const MAX_CONTEXT: usize = 32_768;

impl Options {
    /// The options that suit a device: a GPU needs more rows and longer steps to be busy.
    pub fn on(device: Device) -> Self {
        let default = if device.is_cpu() { Self::default() } else { Self::for_gpu() };
        Self { device, ..default }
    }

    /// The options for a GPU without a device, to compute memory needs.
    pub fn for_gpu() -> Self {
        Self { n_rows: 256, step_tokens: 8192, ..Self::default() }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            device: Device::Cpu,
            more_devices: Vec::new(),
            compute: Compute::default(),
            kv: KvType::Bf16,
            kv_bytes: None,
            n_rows: 64,
            most_rows: 0,
            step_tokens: 512,
            context: None,
            prefix_cache: true,
            saved_prefixes: None,
            drafts: true,
            hung_after: Some(Duration::from_secs(30)),
            recheck_every: 4096,
            threads: None,
            chat_template: None,
            chat_options: serde_json::Value::Null,
            stop_tokens: Vec::new(),
            adapters: Vec::new(),
            estimator: None,
            hashed: Vec::new(),
        }
    }
}

/// A result with the [`Error`] of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of opening an engine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Model(#[from] crate::model::Error),
    #[error("`{path}`: {source}")]
    Adapter { path: String, source: crate::model::Error },
    #[error("`{path}`: {reason}")]
    Text { path: String, reason: String },
    #[error("`{path}`: {source}")]
    Template { path: String, source: llm::Error },
    #[error("the KV cache of {given} holds {fits} tokens, but one sequence of {context} needs {needed}")]
    Cache { given: String, fits: usize, context: usize, needed: String },
    #[error("weights and cache need {needed}, but this process may take only {left} more (`ulimit -v`)")]
    Limit { needed: String, left: String },
    #[error("a KV cache of {asked} is more than the memory that is free beside the weights, {free}")]
    TooMuchCache { asked: String, free: String },
    #[error("the weights take {needed}, and {free} of memory are free; hint: {hint}")]
    TooMuchWeight { needed: String, free: String, hint: String },
    #[error("the threads cannot be started: {0}")]
    Threads(String),
}

/// A loaded model with its thread, or one of its adapters. Clones share the thread.
#[derive(Clone)]
pub struct Engine {
    loaded: Arc<Loaded>,
    /// Index of the adapter in use; `None` for the model itself.
    adapter: Option<u32>,
    /// The cancellation token of its requests, if any.
    stop: Option<CancellationToken>,
    /// Prompts of lower rank are computed first.
    rank: usize,
}

/// The state that all clones share.
struct Loaded {
    workers: Workers,
    tokenizer: Arc<Tokenizer>,
    template: Option<ChatTemplate>,
    /// `None` of an encoder.
    vocabulary: Option<Vocabulary>,
    /// `None` of a language model.
    head: Option<Head>,
    /// The head of a metric; `None` of other models.
    metric: Option<Metric>,
    estimator: Option<Arc<Estimator>>,
    recent: estimate::Recent,
    facts: Facts,
    n_adapters: usize,
}

/// Properties of an engine for signatures and plans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// In order: `dtype`, `act`, `kv`, `device`, `tier` where it can move a bit, `context`, `template` (first
    /// digits of its sha256, `none` without one), `stop` where tokens beside the model's own end a turn.
    pub signature: Signature,
    /// Positions of one sequence.
    pub context: usize,
    pub n_layers: usize,
    /// The head of a model that scores chats and answers none.
    pub score_head: Option<ScoreHead>,
    /// Of an encoder, which gives hidden states and answers nothing.
    pub encoder: Option<EncoderConfig>,
    pub weight_bytes: usize,
    /// [`Weights::n_bytes_on_gpus`] without packed safetensors, whatever the device.
    pub weight_bytes_on_gpus: usize,
    /// Bytes of all adapters beside the weights.
    pub adapter_bytes: usize,
    pub kv_bytes: usize,
    /// Sequences in flight, on all devices together.
    pub n_rows: usize,
    pub sizes: Sizes,
    /// [`Weights::remarks`] of its weights, and a remark on saved prefixes that others can have written.
    pub remarks: Vec<String>,
}

impl Engine {
    /// Loads a GGUF file or a safetensors folder and starts its thread.
    ///
    /// # Errors
    /// Files that are missing or broken, a tokenizer that cannot be read, too little memory for the cache.
    pub fn open(path: &Path, options: &Options) -> Result<Self> {
        let mut weights = Weights::open(path)?;
        if let Some(estimator) = &options.estimator {
            estimator.check(&path.display().to_string(), weights.config())?;
            weights = weights.with_added(estimator.factors())?;
        }
        open::engine(path, &weights, options)
    }

    /// An engine over weights that have no files of their own, such as [`Weights::seeded`] ones: it reads raw
    /// text by `tokenizer` and has no chat template.
    ///
    /// # Errors
    /// Too little memory for weights or cache.
    pub fn over(weights: &Weights, tokenizer: Tokenizer, options: &Options) -> Result<Self> {
        open::over(weights, tokenizer, None, options)
    }

    /// This loaded model with the adapter at an index of [`Options::adapters`], or without any.
    ///
    /// # Panics
    /// When the model was loaded with fewer adapters.
    #[must_use]
    pub fn with_adapter(&self, adapter: Option<usize>) -> Self {
        assert!(adapter.is_none_or(|adapter| adapter < self.loaded.n_adapters), "an adapter that is loaded");
        Self { adapter: adapter.map(|adapter| adapter as u32), ..self.clone() }
    }

    /// This loaded model, with its prompts computed before those of a higher rank.
    #[must_use]
    pub fn ranked(&self, rank: usize) -> Self {
        Self { rank, ..self.clone() }
    }

    /// This loaded model with a cancellation token for its requests.
    #[must_use]
    pub fn until(&self, stop: &CancellationToken) -> Self {
        Self { stop: Some(stop.clone()), ..self.clone() }
    }

    pub fn facts(&self) -> &Facts {
        &self.loaded.facts
    }

    pub fn tokenizer(&self) -> &Tokenizer {
        &self.loaded.tokenizer
    }

    /// The constraint of a form in this model's tokens; `None` for free text.
    ///
    /// # Errors
    /// [`llm::Error::Form`] when it cannot be compiled.
    pub fn grammar(&self, form: &ResponseFormat) -> llm::Result<Option<grammar::Grammar>> {
        self.vocabulary()?.grammar(form)
    }

    /// The prompt ids of a chat.
    ///
    /// # Errors
    /// [`llm::Error::Template`] when the chat template raises an error; [`llm::Error::TooManyBytes`] for a
    /// chat that no context holds; [`llm::Error::Interrupted`].
    pub fn prompt_ids(&self, chat: &Chat) -> llm::Result<Vec<u32>> {
        self.check_bytes(chat.texts())?;
        chat::encode(chat, self.loaded.template.as_ref(), &self.loaded.tokenizer)
    }

    /// Checks, before texts are tokenized, that they can fit the context and are not cancelled.
    fn check_bytes<'a>(&self, texts: impl Iterator<Item = &'a str>) -> llm::Result<()> {
        self.stop.as_ref().map_or(Ok(()), CancellationToken::check)?;
        let context = self.loaded.facts.context;
        let most = self.loaded.tokenizer.most_bytes(context);
        let bytes = texts.map(str::len).sum();
        if bytes > most { Err(llm::Error::TooManyBytes { bytes, most, context }) } else { Ok(()) }
    }

    /// The ids of a text, in which the names of control tokens are plain text.
    fn data(&self, text: &str) -> llm::Result<Vec<u32>> {
        self.check_bytes(std::iter::once(text))?;
        self.loaded.tokenizer.encode_continuation(text).map_err(|error| llm::Error::Engine(error.to_string()))
    }

    /// Returns true if these tokens are at chance level ([`llm::is_chance`]).
    fn is_chance(&self, tokens: &[Token]) -> bool {
        let n_logits = self.loaded.vocabulary.as_ref().map_or(0, Vocabulary::n_logits);
        llm::is_chance(tokens, n_logits, self.loaded.tokenizer.stops())
    }

    /// Checks that prompt and answer fit the context.
    fn check_length(&self, prompt: usize, answer: usize) -> llm::Result<()> {
        let context = self.loaded.facts.context;
        match prompt + answer {
            _ if prompt == 0 => Err(llm::Error::Prompt("the prompt is empty".into())),
            length if length > context => Err(llm::Error::TooLong { prompt, answer, context }),
            _ => Ok(()),
        }
    }

    /// Requests the scores of one chain of a tree of texts. The chain is part of the prompt, so that other
    /// chains share its blocks as soon as they are computed.
    fn score_chain(&self, prompt: &[u32], chain: Chain) -> llm::Result<Pending> {
        let Chain { tokens, first, rows } = chain;
        let tokens = [prompt, &tokens].concat();
        let logits_from = prompt.len() + first - 1;
        let request = Request { logits_from, ..Request::new(tokens, self.variant(None)) };
        self.send(request, Task::Score(Score::new(rows, self.loaded.tokenizer.clone())))
    }

    /// The identity of its blocks in the prefix cache, with so many layers computed; `None` for all.
    fn variant(&self, n_layers: Option<u32>) -> Variant {
        Variant { adapter: self.adapter, n_layers }
    }

    /// Sends a request to a worker.
    fn send(&self, mut request: Request, task: Task) -> llm::Result<Pending> {
        self.stop.as_ref().map_or(Ok(()), CancellationToken::check)?;
        request.rank = self.rank;
        let (sender, receiver) = sync_channel(1);
        let caller = Arc::new(());
        let answer = Box::new(Answer::new(task, sender, Arc::downgrade(&caller)));
        if let Some(generated) = answer.generated() {
            // The tokens that the form forces at the start are computed with the prompt.
            let forced = generated.ids(0);
            request.n_more = request.n_more.saturating_sub(forced.len());
            request.tokens.extend(forced);
        }
        let (waiting, watch) = self.loaded.workers.send(Submission { request, answer }).ok_or_else(gone)?;
        Ok(Pending { receiver, stop: self.stop.clone(), watch, _held: (caller, waiting) })
    }
}

impl Llm for Engine {
    fn ask(&self, chat: &Chat, form: &ResponseFormat, sampling: &Sampling) -> llm::Result<Reply> {
        self.check_answers()?;
        let tokens = self.prompt_ids(chat)?;
        self.check_length(tokens.len(), sampling.max_tokens)?;
        let grammar = self.grammar(form)?;
        if sampling.max_tokens == 0 {
            return Ok(Reply { finish: Finish::Length, prompt_ids: tokens, ..Reply::default() });
        }
        let (n_more, logits_from) = (sampling.max_tokens, tokens.len() - 1);
        let request = Request { n_more, logits_from, ..Request::new(tokens, self.variant(None)) };
        let prompt = &request.tokens[..];
        let reasoning_stop = self.loaded.template.as_ref().and_then(|template| template.reasoning_stop(chat));
        let mut sampling = sampling.clone();
        sampling.stop.extend(reasoning_stop.map(str::to_owned));
        let generate = Generate::new(grammar, sampling, prompt, self.loaded.tokenizer.clone());
        let mut reply = self.send(request, Task::Generate(Box::new(generate)))?.wait()?.reply;
        if let Some(end) = reasoning_stop {
            reply.finish = chat::reasoning_finish(&reply, end);
        }
        reply.is_chance = self.is_chance(&reply.tokens);
        Ok(reply)
    }

    fn context(&self) -> Option<usize> {
        Some(self.loaded.facts.context)
    }

    fn reasons(&self) -> bool {
        self.loaded.template.as_ref().is_some_and(ChatTemplate::reasons)
    }

    fn announce(&self, prefix: &[u32]) {
        let tokens = prefix[..prefix.len() / BLOCK * BLOCK].to_vec();
        if !tokens.is_empty() {
            self.loaded.workers.announce(&Prefix { variant: self.variant(None), tokens });
        }
    }

    fn computed(&self) -> usize {
        self.loaded.workers.computed()
    }

    fn confirmed(&self) -> Vec<Confirmed> {
        self.loaded.workers.confirmed()
    }

    /// Texts share their common prefixes, and all continuations of a prefix share its row of logits: the tree
    /// of the numbers from 0 to 100 takes eleven rows.
    fn score_continuations(&self, chat: &Chat, continuations: &[String]) -> llm::Result<Vec<Scored>> {
        self.check_answers()?;
        let prompt = self.prompt_ids(chat)?;
        let texts: Vec<Vec<u32>> =
            continuations.iter().map(|text| self.data(text)).collect::<Result<_, _>>()?;
        for ids in &texts {
            self.check_length(prompt.len(), ids.len())?;
        }
        let Branches { chains, places } = Branches::of(&texts);
        let waiting: Vec<Pending> =
            chains.into_iter().map(|chain| self.score_chain(&prompt, chain)).collect::<Result<_, _>>()?;
        let replies: Vec<Reply> =
            waiting.iter().map(|pending| Ok(pending.wait()?.reply)).collect::<llm::Result<_>>()?;
        let mut usage = branches::together(&replies);
        let token = |place: &Place| replies[place.chain].tokens[place.at].clone();
        let scored = |(text, places): (&String, Vec<Place>)| {
            let usage = if places.is_empty() { Usage::default() } else { std::mem::take(&mut usage) };
            let tokens: Vec<Token> = places.iter().map(token).collect();
            let is_chance = self.is_chance(&tokens);
            Scored { text: text.clone(), tokens, is_chance, usage, ..Scored::default() }
        };
        Ok(continuations.iter().zip(places).map(scored).collect())
    }

    fn read(&self, chat: &Chat, text: &str, probe: &LinearProbe) -> llm::Result<Scored> {
        let states = self.states(chat, text, &probe.depths)?;
        let reading = Some(states.apply(probe));
        Ok(Scored { text: text.to_owned(), reading, usage: states.usage, ..Scored::default() })
    }

    fn states(&self, chat: &Chat, text: &str, depths: &[usize]) -> llm::Result<States> {
        self.states_of(chat, text, depths)
    }

    fn score(&self, chat: &Chat) -> llm::Result<Scored> {
        self.head_outputs(chat)
    }

    fn estimate(&self, texts: &MetricTexts<'_>) -> llm::Result<Estimate> {
        self.estimate_of(texts)
    }

    fn counter(&self) -> Option<&dyn Counter> {
        Some(self)
    }

    fn until(&self, stop: &CancellationToken, rank: usize) -> Option<Arc<dyn Llm>> {
        Some(Arc::new(Self::until(self, stop).ranked(rank)))
    }
}

impl Counter for Engine {
    fn count(&self, chat: &Chat) -> llm::Result<usize> {
        self.metric_tokens(chat).unwrap_or_else(|| Ok(self.prompt_ids(chat)?.len()))
    }

    fn prompt_ids(&self, chat: &Chat) -> llm::Result<Option<Vec<u32>>> {
        if self.reads_texts() {
            return Ok(None);
        }
        Self::prompt_ids(self, chat).map(Some)
    }

    fn shortest(&self, form: &ResponseFormat) -> llm::Result<Option<String>> {
        grammar::shortest(form)
    }
}
