//! A fake model whose answers depend on the seed.

use std::sync::Mutex;

use tribunal_core::llm::{self, Chat, Llm, Reply, ResponseFormat, Sampling, Scored, Token, TokenSource};

/// A fake [`Llm`] that picks `answers[seed % answers.len()]` and scores continuations with fixed
/// probabilities.
#[derive(Default)]
pub struct SeededAnswers {
    pub answers: Vec<String>,
    /// The scored chats and continuations.
    pub scored: Mutex<Vec<(Chat, Vec<String>)>>,
}

impl Llm for SeededAnswers {
    fn ask(&self, _: &Chat, _: &ResponseFormat, sampling: &Sampling) -> Result<Reply, llm::Error> {
        let text = self.answers[sampling.seed as usize % self.answers.len()].clone();
        // Tokens of two characters, whose probabilities rise.
        let cuts: Vec<usize> = text.char_indices().map(|(at, _)| at).step_by(2).chain([text.len()]).collect();
        let token =
            |(n, pair): (usize, &[usize])| token(&text[pair[0]..pair[1]], 1.0 - 1.0 / (n as f64 + 2.0));
        Ok(Reply { tokens: cuts.windows(2).enumerate().map(token).collect(), text, ..Reply::default() })
    }

    fn score_continuations(&self, chat: &Chat, continuations: &[String]) -> Result<Vec<Scored>, llm::Error> {
        self.scored.lock().unwrap().push((chat.clone(), continuations.to_vec()));
        let weigh = |text: &String| {
            let probability = match text.as_str() {
                "1," => 0.1,
                "3," => 0.3,
                "40" | "80" => 0.2,
                _ => 0.0,
            };
            Scored {
                text: text.clone(),
                tokens: vec![token(text, probability)],
                reading: None,
                estimate: None,
                is_chance: false,
                usage: tribunal_core::llm::Usage::default(),
            }
        };
        Ok(continuations.iter().map(weigh).collect())
    }
}

fn token(text: &str, probability: f64) -> Token {
    let logprob = probability.ln();
    Token { id: 0, text: text.into(), logprob, masked_logprob: logprob, source: TokenSource::Sampled }
}
