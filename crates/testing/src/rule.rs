//! A model that answers by a rule. It gives no log-probabilities.

use tribunal_core::llm::{Chat, Counter, Error, Llm, Reply, ResponseFormat, Sampling, Scored};

/// Answers by the chat's text.
pub struct Rule<F>(pub F);

impl<F: Fn(&Chat) -> Reply + Send + Sync> Llm for Rule<F> {
    fn ask(&self, chat: &Chat, _: &ResponseFormat, _: &Sampling) -> Result<Reply, Error> {
        Ok(self.0(chat))
    }

    fn score_continuations(&self, _: &Chat, _: &[String]) -> Result<Vec<Scored>, Error> {
        Err(Error::Engine("a rule weighs nothing".into()))
    }

    fn counter(&self) -> Option<&dyn Counter> {
        Some(self)
    }
}

impl<F: Fn(&Chat) -> Reply + Send + Sync> Counter for Rule<F> {
    fn count(&self, chat: &Chat) -> Result<usize, Error> {
        Ok(crate::words(chat))
    }
}

/// Answers by the chat's text and the sampling parameters.
pub struct Sampled<F>(pub F);

impl<F: Fn(&Chat, &Sampling) -> Reply + Send + Sync> Llm for Sampled<F> {
    fn ask(&self, chat: &Chat, _: &ResponseFormat, sampling: &Sampling) -> Result<Reply, Error> {
        Ok(self.0(chat, sampling))
    }

    fn score_continuations(&self, _: &Chat, _: &[String]) -> Result<Vec<Scored>, Error> {
        Err(Error::Engine("a rule weighs nothing".into()))
    }

    fn counter(&self) -> Option<&dyn Counter> {
        Some(self)
    }
}

impl<F: Fn(&Chat, &Sampling) -> Reply + Send + Sync> Counter for Sampled<F> {
    fn count(&self, chat: &Chat) -> Result<usize, Error> {
        Ok(crate::words(chat))
    }
}
