//! The interface between judges and engines: a request ([`Chat`], [`ResponseFormat`], [`Sampling`]) and its
//! [`Reply`]. Judges see no token ids through it, and the engine sees no segments.

use std::{collections::BTreeMap, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod cancellation;
mod chance;
mod estimate;
mod layout;
mod linear_probe;
mod prefixes;
mod reasoning;
mod usage;
mod written;

pub use cancellation::CancellationToken;
pub use chance::is_chance;
pub use estimate::{Estimate, EstimatedSpan, MetricTexts};
pub use layout::Layout;
pub use linear_probe::{LinearProbe, Reading, States};
pub use prefixes::PrefixTracker;
pub use reasoning::{Effort, Reasoning, ReasoningOptions};
pub use usage::Usage;

/// A language model: the in-process engine, or a scripted one in tests.
pub trait Llm: Sync + Send {
    /// Generates the answer to a chat; blocks until it is complete.
    ///
    /// # Errors
    /// [`Error::TooLong`] when prompt and answer budget exceed the context; [`Error::Form`] when the form
    /// cannot be compiled; [`Error::Engine`] when the engine itself failed.
    fn ask(&self, chat: &Chat, form: &ResponseFormat, sampling: &Sampling) -> Result<Reply>;

    /// Log-probabilities of given continuations of one chat (labels, scores, fixed answers), in order.
    ///
    /// # Errors
    /// The errors of [`Llm::ask`].
    fn score_continuations(&self, chat: &Chat, continuations: &[String]) -> Result<Vec<Scored>>;

    /// Applies a linear probe to the hidden states of a text after a chat. The log-probabilities of its
    /// tokens are not computed.
    ///
    /// # Errors
    /// The errors of [`Llm::ask`]; [`Error::Depth`] when the model has no such layer, [`Error::Engine`] when
    /// it does not provide states.
    fn read(&self, _chat: &Chat, _text: &str, _probe: &LinearProbe) -> Result<Scored> {
        Err(hidden())
    }

    /// Returns the hidden states after each of `depths` layers for a text after a chat.
    ///
    /// # Errors
    /// The errors of [`Llm::read`].
    fn states(&self, _chat: &Chat, _text: &str, _depths: &[usize]) -> Result<States> {
        Err(hidden())
    }

    /// The outputs of the model's score head after the last token of a chat, as the one row of
    /// [`Scored::reading`].
    ///
    /// # Errors
    /// The errors of [`Llm::ask`]; [`Error::Engine`] when the model has no score head.
    fn score(&self, _chat: &Chat) -> Result<Scored> {
        Err(Error::Engine("this model has no score head".into()))
    }

    /// The estimate of a metric that was trained on human scores (COMET).
    ///
    /// # Errors
    /// [`Error::Engine`] when the model is not a metric, or needs a text that is missing.
    fn estimate(&self, _texts: &MetricTexts<'_>) -> Result<Estimate> {
        Err(Error::Engine("this model is not a metric".into()))
    }

    /// Returns true if the model can reason before an answer ([`Chat::thought`]): if its chat template marks
    /// reasoning.
    fn reasons(&self) -> bool {
        true
    }

    /// The most tokens of a prompt with its answer; `None` where no limit is known.
    fn context(&self) -> Option<usize> {
        None
    }

    /// Its token counts without running it; `None` if it has none.
    fn counter(&self) -> Option<&dyn Counter> {
        None
    }

    /// This model with a cancellation token: after cancellation, pending requests end with
    /// [`Error::Interrupted`] and take no more of the model's time. Prompts are computed before those of a
    /// higher rank. `None` if requests can neither be cancelled nor ranked.
    fn until(&self, _stop: &CancellationToken, _rank: usize) -> Option<Arc<dyn Llm>> {
        None
    }

    /// Announces that prompts will begin with these tokens ([`Counter::prompt_ids`]), so that their keys and
    /// values can be read from a file, or saved to one for a later process. No result changes. They must hold
    /// no text of the input.
    fn announce(&self, _prefix: &[u32]) {}

    /// Token positions computed so far, over all requests, for a progress display.
    fn computed(&self) -> usize {
        0
    }

    /// Results of the steps that its devices computed twice, device by device; empty where none is computed
    /// twice.
    fn confirmed(&self) -> Vec<Confirmed> {
        Vec::new()
    }
}

/// Results of the steps that a device computed twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// Number of steps with the same result both times.
    pub n: usize,
    /// True if one step had different results. Answers completed while `n` had its present value may be
    /// wrong.
    pub differs: bool,
}

/// Token counts of a model's prompts and answers without running it, for dry runs.
pub trait Counter: Sync + Send {
    /// The number of prompt tokens of a chat.
    ///
    /// # Errors
    /// [`Error::Template`] when the model's chat template rejects the chat.
    fn count(&self, chat: &Chat) -> Result<usize>;

    /// The ids of a chat's prompt, [`Counter::count`] of them, to find shared prefixes. `None` if the model
    /// does not provide them.
    ///
    /// # Errors
    /// The errors of [`Counter::count`].
    fn prompt_ids(&self, _chat: &Chat) -> Result<Option<Vec<u32>>> {
        Ok(None)
    }

    /// The shortest complete answer that a form allows. `None` if it is unavailable: for free text, for a
    /// schema beyond our own compiler, and from implementations without forms.
    ///
    /// # Errors
    /// [`Error::Form`] when the form cannot be compiled.
    fn shortest(&self, _form: &ResponseFormat) -> Result<Option<String>> {
        Ok(None)
    }
}

fn hidden() -> Error {
    Error::Engine("this model shows no hidden states".into())
}

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MessageRole {
    System,
    User,
    Assistant,
}

/// One message of a chat. Its content is data: control tokens inside it never act as such.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    pub role: MessageRole,
    pub content: String,
}

/// The prompt that a model continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// A conversation, through the model's chat template; nothing in a turn acts as a control token.
    Messages(Vec<Message>),
    /// A text as it is, without a chat template; control tokens in it act as such.
    Raw(String),
    /// A text as it is, without a chat template; nothing in it acts as a control token.
    Plain(String),
}

impl Default for Prompt {
    fn default() -> Self {
        Self::Messages(Vec::new())
    }
}

/// A chat to continue as the assistant, with the part of the answer that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "written::Chat", into = "written::Chat")]
pub struct Chat {
    pub prompt: Prompt,
    /// The assistant's reasoning before the answer, for models that reason; it comes before the prefill. Only
    /// for [`Prompt::Messages`]: other prompts contain their own.
    pub thought: Option<Reasoning>,
    /// Reasoning effort; no effect without [`Chat::thought`].
    pub effort: Option<Effort>,
    /// Text of the assistant's answer that is already there; the reply continues it.
    pub prefill: String,
    /// The tokenizer puts its own beginning-of-sequence token before the one that a chat template writes, as
    /// where a rendered chat is tokenized like any text. Only for [`Prompt::Messages`].
    pub tokenized_as_text: bool,
}

impl Chat {
    /// An empty conversation.
    pub fn new() -> Self {
        Self::default()
    }

    /// A prompt that goes to the model as it is, without a chat template.
    pub fn raw(prompt: impl Into<String>) -> Self {
        Self { prompt: Prompt::Raw(prompt.into()), ..Self::default() }
    }

    /// A text that the model continues, without a chat template; nothing in it is a control token.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { prompt: Prompt::Plain(text.into()), ..Self::default() }
    }

    /// A conversation.
    pub fn from_messages(turns: Vec<Message>) -> Self {
        Self { prompt: Prompt::Messages(turns), ..Self::default() }
    }

    /// The conversation's turns; none of a prompt without a chat template.
    pub fn messages(&self) -> &[Message] {
        match &self.prompt {
            Prompt::Messages(turns) => turns,
            Prompt::Raw(_) | Prompt::Plain(_) => &[],
        }
    }

    /// The text that goes to the model without a chat template; `None` of a conversation.
    pub fn untemplated(&self) -> Option<&str> {
        match &self.prompt {
            Prompt::Messages(_) => None,
            Prompt::Raw(text) | Prompt::Plain(text) => Some(text),
        }
    }

    /// The texts of the prompt: the contents of its turns, or its text.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.messages().iter().map(|turn| turn.content.as_str()).chain(self.untemplated())
    }

    /// Adds a turn.
    ///
    /// # Panics
    /// If the prompt has no turns but a text.
    #[must_use]
    pub fn with(mut self, role: MessageRole, content: impl Into<String>) -> Self {
        let Prompt::Messages(turns) = &mut self.prompt else { panic!("a text has no turns to add to") };
        turns.push(Message { role, content: content.into() });
        self
    }

    /// Adds a system turn.
    #[must_use]
    pub fn system(self, content: impl Into<String>) -> Self {
        self.with(MessageRole::System, content)
    }

    /// Adds a user turn.
    #[must_use]
    pub fn user(self, content: impl Into<String>) -> Self {
        self.with(MessageRole::User, content)
    }

    /// Adds an assistant turn.
    #[must_use]
    pub fn assistant(self, content: impl Into<String>) -> Self {
        self.with(MessageRole::Assistant, content)
    }
}

/// The format of an answer. Every form but [`ResponseFormat::Text`] is enforced by constrained decoding.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ResponseFormat {
    /// Free text until the model ends its turn or a stop string appears.
    #[default]
    Text,
    /// JSON that conforms to a schema; properties come in the schema's order. Strings may carry the keyword
    /// `"substringOf": NAME` (or a list of names): a verbatim, non-empty substring of the text of that name;
    /// with `"minLength": 0` beside it the empty string is allowed too.
    Json {
        schema: serde_json::Value,
        /// The texts that `substringOf` names.
        texts: BTreeMap<String, String>,
    },
    /// The whole answer matches this regular expression.
    Regex(String),
    /// One of these strings, verbatim.
    Choice(Vec<String>),
    /// Plain text in a fixed layout, whose spans are copied verbatim from the texts that it names.
    Layout { layout: Layout, texts: BTreeMap<String, String> },
}

impl ResponseFormat {
    /// A JSON form without spans.
    pub fn json(schema: serde_json::Value) -> Self {
        Self::about(schema, [])
    }

    /// A JSON form with spans of these texts.
    pub fn about<const N: usize>(schema: serde_json::Value, texts: [(&str, &str); N]) -> Self {
        Self::Json { schema, texts: texts.map(|(name, text)| (name.to_owned(), text.to_owned())).into() }
    }
}

/// Sampling parameters. The default is greedy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: f32,
    /// Nucleus: the smallest set of tokens whose probability reaches this; 1 keeps all.
    pub top_p: f32,
    /// Random seed: equal prompts and seeds give equal answers.
    pub seed: u64,
    /// The maximum number of answer tokens.
    pub max_tokens: usize,
    /// Strings that end the answer and are removed from it.
    pub stop: Vec<String>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 0.0, top_p: 1.0, seed: 0, max_tokens: 1024, stop: Vec::new() }
    }
}

/// An answer with its tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Reply {
    pub text: String,
    pub tokens: Vec<Token>,
    pub finish: Finish,
    pub usage: Usage,
    /// True if the answer carries no signal of the model: see [`is_chance`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_chance: bool,
    /// Token ids of the prompt; empty where an implementation has no tokenizer.
    #[serde(skip)]
    pub prompt_ids: Vec<u32>,
}

/// One generated (or given) token.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Token {
    pub id: u32,
    pub text: String,
    /// Natural log of the model's probability over the whole vocabulary, at temperature 1.
    pub logprob: f64,
    /// Log-probability over the tokens that the form allowed; equal to `logprob` when everything was allowed.
    pub masked_logprob: f64,
    pub source: TokenSource,
}

/// The origin of a token in an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenSource {
    /// Sampled from the model's distribution.
    #[default]
    Sampled,
    /// The form allowed nothing else.
    Forced,
    /// Drafted from the text and accepted by the model.
    Drafted,
}

/// Reason for the end of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Finish {
    /// The model ended its turn, or a stop string appeared.
    #[default]
    Stop,
    /// The token budget cut it: the text is the beginning of an answer, even where it conforms to its form.
    Length,
    /// The form was complete and allowed nothing more.
    Form,
    /// The model ended its turn within its reasoning ([`Reasoning::Open`]), which nothing closed.
    Open,
}

/// A given continuation with the log-probability of each of its tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Scored {
    pub text: String,
    pub tokens: Vec<Token>,
    /// The values of a linear probe, if one was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading: Option<Reading>,
    /// The estimate of a metric, in place of a continuation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// True if its log-probability carries no signal of the model: see [`is_chance`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_chance: bool,
    #[serde(skip)]
    pub usage: Usage,
}

impl Scored {
    /// Sum of the tokens' log-probabilities.
    pub fn logprob(&self) -> f64 {
        self.tokens.iter().map(|t| t.logprob).sum()
    }
}

/// A result with the [`Error`] of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a question without an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Error {
    #[error(
        "the prompt has {prompt} tokens and the answer may take {answer}, but the context holds {context}"
    )]
    TooLong { prompt: usize, answer: usize, context: usize },
    /// More than the longest tokens could hold; it was not tokenized.
    #[error(
        "the prompt has {bytes} bytes, and the {context} tokens of the context can hold no more than {most}"
    )]
    TooManyBytes { bytes: usize, most: usize, context: usize },
    #[error("the form cannot be compiled: {0}")]
    Form(String),
    #[error("the chat template refused the conversation: {0}")]
    Template(String),
    /// A prompt that no template could render: it is empty, or cannot be told from control tokens.
    #[error("the chat template refused the conversation: {0}")]
    Prompt(String),
    #[error("hidden states after {depth} layers of a model with {n_layers}; hint: ask for 1 to {}", n_layers.saturating_sub(1))]
    Depth { depth: usize, n_layers: usize },
    /// The answer is determined by the form, not by the model: see [`is_chance`].
    #[error(
        "the model gives the answer no more probability than tokens drawn at random would have; hint: are its weights \
         whole, and is its chat template the right one?"
    )]
    NoSignal,
    /// The reasoning before an answer reached its budget. Unit: tokens.
    #[error("the reasoning ended at its budget of {0} tokens, so that there is no answer")]
    ReasoningBudget(usize),
    /// The model ended its turn within its reasoning ([`Finish::Open`]).
    #[error("the model ended its turn while reasoning, so that there is no answer")]
    ReasoningOpen,
    #[error("the engine failed: {0}")]
    Engine(String),
    /// No further requests are possible: the device is lost, or its thread has ended.
    #[error("the engine has stopped: {0}")]
    Stopped(String),
    /// A step that was computed twice had different results: answers computed since the last step with equal
    /// results ([`Llm::confirmed`]) may be wrong.
    #[error("a GPU computed a step again with another result: {0}")]
    Differs(String),
    /// The request was cancelled ([`CancellationToken`]).
    #[error("interrupted")]
    Interrupted,
}
