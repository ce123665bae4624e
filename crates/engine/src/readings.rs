//! Readings of a text by hidden states: the states themselves, and the outputs of a score head. It generates
//! nothing.

use crate::llm::{self, Chat, Reading, Scored, States};

use super::{
    Engine, Facts, ScoreHead,
    answer::{Outcome, Task},
    grammar::Vocabulary,
    radix::Variant,
    score::HiddenStates,
    sequence::Request,
};

impl Engine {
    /// Rejects a question to a model without an output matrix.
    pub(super) fn check_answers(&self) -> llm::Result<()> {
        let reason =
            "the model has a score head and generates no text; hint: `tribunal ask` prints its scores";
        if self.loaded.head.is_some() {
            return Err(llm::Error::Engine(reason.into()));
        }
        self.vocabulary().map(drop)
    }

    /// The vocabulary of answers.
    pub(super) fn vocabulary(&self) -> llm::Result<&Vocabulary> {
        let reason = "the model is an encoder and generates no text; hint: use a language model";
        self.loaded.vocabulary.as_ref().ok_or_else(|| llm::Error::Engine(reason.into()))
    }

    /// The hidden states of an encoder for a text by its ids, an entry for each of `depths`: after so many
    /// layers, 0 for the embeddings. Ids of special tokens are the caller's
    /// ([`super::tokenizer::Tokenizer::encode_spans`]).
    ///
    /// Shape: `[depths][tokens, hidden]`.
    ///
    /// # Errors
    /// A model that is not an encoder, a depth that it lacks, and [`llm::Error::TooLong`] for a text of more
    /// tokens than it has positions.
    pub fn encode(&self, ids: Vec<u32>, depths: &[usize]) -> llm::Result<Vec<Vec<f32>>> {
        let Facts { n_layers, encoder, sizes, .. } = &self.loaded.facts;
        let failed = |reason: String| Err(llm::Error::Engine(reason));
        let Some(encoder) = encoder else {
            return failed("the model is not an encoder; hint: use XLM-R, InfoXLM, E5 or BERT".into());
        };
        self.check_length(ids.len(), 0)?;
        if let Some(id) =
            ids.iter().find(|id| **id as usize >= sizes.vocab || Some(**id) == encoder.padding())
        {
            return failed(format!("the encoder does not take the token {id}"));
        }
        let Some(deepest) = depths.iter().max() else { return Ok(Vec::new()) };
        if deepest > n_layers {
            return failed(format!(
                "hidden states after {deepest} layers were requested, but the encoder has {n_layers}"
            ));
        }
        let variant = self.variant(Some(*deepest as u32));
        let depths = depths.iter().map(|&depth| depth as u32).collect();
        Ok(self.hidden_states(ids, 0, depths, variant)?.states)
    }

    /// The hidden states of a text after a chat: [`crate::llm::Llm::states`].
    pub(super) fn states_of(&self, chat: &Chat, text: &str, depths: &[usize]) -> llm::Result<States> {
        self.check_answers()?;
        let prompt = self.prompt_ids(chat)?;
        let (n_prompt, ids) = (prompt.len(), self.data(text)?);
        self.check_length(n_prompt, ids.len())?;
        if let Some(depth) = depths.iter().find(|&&depth| depth == 0 || depth >= self.loaded.facts.n_layers) {
            let n_layers = self.loaded.facts.n_layers;
            return Err(llm::Error::Depth { depth: *depth, n_layers });
        }
        let (Some(&deepest), false) = (depths.iter().max(), ids.is_empty()) else {
            return Ok(States::default());
        };
        let mut end = 0;
        let ends = ids.iter().map(|&id| {
            end = text.len().min(end + self.loaded.tokenizer.bytes(id).len());
            end
        });
        let ends = ends.collect();
        let tokens = [&prompt[..], &ids].concat();
        // Later layers do not affect the states.
        let variant = self.variant(Some(deepest as u32));
        let depths = depths.iter().map(|&depth| depth as u32).collect();
        let Outcome { reply, states } = self.hidden_states(tokens, n_prompt, depths, variant)?;
        Ok(States { ends, states, usage: reply.usage })
    }

    /// The outputs of the score head after a chat: [`crate::llm::Llm::score`].
    pub(super) fn head_outputs(&self, chat: &Chat) -> llm::Result<Scored> {
        let (Some(head), Some(ScoreHead { padding, .. })) = (&self.loaded.head, self.loaded.facts.score_head)
        else {
            let reason = "the model has no score head; hint: use a method that asks a language model";
            return Err(llm::Error::Engine(reason.into()));
        };
        let mut tokens = self.prompt_ids(chat)?;
        self.check_length(tokens.len(), 0)?;
        while tokens.len() > 1 && tokens.last().copied() == padding {
            tokens.pop();
        }
        let (last, n_layers) = (tokens.len() - 1, self.loaded.facts.n_layers as u32);
        let Outcome { reply, states } =
            self.hidden_states(tokens, last, vec![n_layers], self.variant(None))?;
        let values: Vec<Vec<f64>> = states.iter().map(|state| head.outputs(state)).collect();
        if values.iter().flatten().any(|output| !output.is_finite()) {
            let reason = "the outputs of the score head are not numbers; its weights are damaged";
            return Err(llm::Error::Engine(reason.into()));
        }
        let reading = Some(Reading { ends: Vec::new(), values });
        Ok(Scored { reading, usage: reply.usage, ..Scored::default() })
    }

    /// Computes hidden states of the tokens from `first` on, after each of `depths` layers.
    fn hidden_states(
        &self,
        tokens: Vec<u32>,
        first: usize,
        depths: Vec<u32>,
        variant: Variant,
    ) -> llm::Result<Outcome> {
        let task = Task::HiddenStates(HiddenStates::new(tokens.len() - first, depths));
        let request = Request { states_from: first, ..Request::new(tokens, variant) };
        let outcome = self.send(request, task)?.wait()?;
        if outcome.states.iter().flatten().any(|x| !x.is_finite()) {
            let reason =
                "the hidden states are not numbers; the weights are damaged or overflow their format";
            return Err(llm::Error::Engine(reason.into()));
        }
        Ok(outcome)
    }
}
