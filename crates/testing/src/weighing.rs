//! Models that give numbers: log-probabilities of words by a rule, or of numbers by fixed odds, outputs of a score
//! head, and a metric's estimates.

use tribunal_core::llm::{
    Chat, Error, Estimate, Finish, Llm, MetricTexts, Prompt, Reading, Reply, ResponseFormat, Sampling,
    Scored, Token, TokenSource, Usage,
};

fn token(text: &str, logprob: f64) -> Token {
    Token { id: 0, text: text.into(), logprob, masked_logprob: logprob, source: TokenSource::Sampled }
}

/// Weighs every word of a text by a rule.
pub struct Words<F>(pub F);

impl<F: Fn(&str, &str) -> f64 + Send + Sync> Llm for Words<F> {
    fn ask(&self, _: &Chat, _: &ResponseFormat, _: &Sampling) -> Result<Reply, Error> {
        Err(Error::Engine("nothing is to be written".into()))
    }

    fn score_continuations(&self, chat: &Chat, texts: &[String]) -> Result<Vec<Scored>, Error> {
        let prompt = chat.untemplated().unwrap();
        assert!(matches!(chat.prompt, Prompt::Plain(_)));
        let token = |word: &str| token(word, (self.0)(prompt, word));
        let scored = |text: &String| Scored {
            text: text.clone(),
            tokens: text.split_whitespace().map(token).collect(),
            reading: None,
            estimate: None,
            is_chance: false,
            usage: Usage::default(),
        };
        Ok(texts.iter().map(scored).collect())
    }
}

/// A score head whose outputs follow from the chat.
pub struct Outputs(pub fn(&Chat) -> Vec<f64>);

impl Llm for Outputs {
    fn ask(&self, _: &Chat, _: &ResponseFormat, _: &Sampling) -> Result<Reply, Error> {
        Err(Error::Engine("nothing is to be written".into()))
    }

    fn score_continuations(&self, _: &Chat, _: &[String]) -> Result<Vec<Scored>, Error> {
        Err(Error::Engine("nothing is to be weighed".into()))
    }

    fn score(&self, chat: &Chat) -> Result<Scored, Error> {
        let reading = Some(Reading { ends: Vec::new(), values: vec![(self.0)(chat)] });
        let (text, tokens, usage) = (String::new(), Vec::new(), Usage::default());
        Ok(Scored { text, tokens, reading, estimate: None, is_chance: false, usage })
    }
}

/// A metric whose estimate follows from the texts.
pub struct Estimates(pub fn(&MetricTexts<'_>) -> Estimate);

impl Llm for Estimates {
    fn ask(&self, _: &Chat, _: &ResponseFormat, _: &Sampling) -> Result<Reply, Error> {
        Err(Error::Engine("nothing is to be written".into()))
    }

    fn score_continuations(&self, _: &Chat, _: &[String]) -> Result<Vec<Scored>, Error> {
        Err(Error::Engine("nothing is to be weighed".into()))
    }

    fn estimate(&self, texts: &MetricTexts<'_>) -> Result<Estimate, Error> {
        Ok((self.0)(texts))
    }
}

/// Answers by the last turn, and gives half of the probability to 40 and half to 80.
pub struct Halves(pub fn(&str) -> String);

impl Llm for Halves {
    fn ask(&self, chat: &Chat, _: &ResponseFormat, _: &Sampling) -> Result<Reply, Error> {
        let text = (self.0)(&chat.messages().last().unwrap().content);
        Ok(Reply { text, finish: Finish::Form, ..Reply::default() })
    }

    fn score_continuations(&self, _: &Chat, texts: &[String]) -> Result<Vec<Scored>, Error> {
        let scored = |text: &String| Scored {
            text: text.clone(),
            tokens: vec![token(text, f64::ln(if ["40", "80"].contains(&text.as_str()) { 0.2 } else { 0.0 }))],
            reading: None,
            estimate: None,
            is_chance: false,
            usage: Usage::default(),
        };
        Ok(texts.iter().map(scored).collect())
    }
}
