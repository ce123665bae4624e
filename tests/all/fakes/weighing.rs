//! Models that weigh what they are given: words by a rule, alternatives by fixed odds, or with random weights.

use std::sync::Mutex;

use tribunal::{
    engine::Engine,
    llm::{Chat, Error, Finish, Form, Llm, Reply, Sampling, Token, TokenSource, Usage, Weighed},
};

fn token(text: &str, logprob: f64) -> Token {
    Token { id: 0, text: text.into(), logprob, masked_logprob: logprob, source: TokenSource::Sampled }
}

/// A text that is one token.
fn weighed(text: &str, logprob: f64) -> Weighed {
    let tokens = vec![token(text, logprob)];
    Weighed { text: text.into(), tokens, reading: None, usage: Usage::default() }
}

/// Weighs every word of a text by a rule.
pub struct Words<F>(pub F);

impl<F: Fn(&str, &str) -> f64 + Send + Sync> Llm for Words<F> {
    fn ask(&self, _: &Chat, _: &Form, _: &Sampling) -> Result<Reply, Error> {
        Err(Error::Engine("nothing is to be written".into()))
    }

    fn weigh(&self, chat: &Chat, texts: &[String]) -> Result<Vec<Weighed>, Error> {
        let prompt = chat.raw.as_deref().unwrap();
        assert!(chat.inert && chat.turns.is_empty());
        let token = |word: &str| token(word, (self.0)(prompt, word));
        let weighed = |text: &String| Weighed {
            text: text.clone(),
            tokens: text.split_whitespace().map(token).collect(),
            reading: None,
            usage: Usage::default(),
        };
        Ok(texts.iter().map(weighed).collect())
    }

    fn count(&self, _: &Chat) -> Result<usize, Error> {
        Ok(1)
    }
}

/// Answers by the last turn, and gives alternatives fixed probabilities.
pub struct Odds(pub fn(&str) -> String);

impl Llm for Odds {
    fn ask(&self, chat: &Chat, _: &Form, _: &Sampling) -> Result<Reply, Error> {
        let text = (self.0)(&chat.turns.last().unwrap().content);
        Ok(Reply { text, finish: Finish::Form, ..Reply::default() })
    }

    fn weigh(&self, chat: &Chat, texts: &[String]) -> Result<Vec<Weighed>, Error> {
        let probability = |text: &str| match text {
            "critical\"" => 0.01,
            "major\"" => 0.03,
            "minor\"" => 0.06,
            // Of the first error it was sure.
            text if text.contains("error_category") && chat.prefill.ends_with('[') => 0.5,
            text if text.contains("error_category") => 0.3,
            text if text.starts_with(']') && chat.prefill.ends_with('[') => 0.0,
            text if text.starts_with(']') => 0.1,
            "40" | "80" => 0.2,
            _ => 0.0,
        };
        Ok(texts.iter().map(|text| weighed(text, f64::ln(probability(text)))).collect())
    }

    fn count(&self, _: &Chat) -> Result<usize, Error> {
        Ok(1)
    }
}

/// Random weights that see the answer so far and no prompt, so that it fits their context.
pub struct Brief(pub Engine);

impl Llm for Brief {
    fn ask(&self, chat: &Chat, form: &Form, sampling: &Sampling) -> Result<Reply, Error> {
        let bytes: u64 = chat.turns.iter().flat_map(|turn| turn.content.bytes()).map(u64::from).sum();
        let sampling = Sampling { temperature: 1.0, seed: sampling.seed ^ bytes, ..sampling.clone() };
        self.0.ask(&Chat::new().user("?"), form, &sampling)
    }

    fn weigh(&self, chat: &Chat, texts: &[String]) -> Result<Vec<Weighed>, Error> {
        self.0.weigh(&Chat { prefill: chat.prefill.clone(), ..Chat::new().user("?") }, texts)
    }

    fn count(&self, chat: &Chat) -> Result<usize, Error> {
        self.0.count(chat)
    }
}

/// Finds an error in whatever it may, and is the surer that there is none the more often a translation says `gut`.
#[derive(Default)]
pub struct Reader {
    pub forms: Mutex<Vec<String>>,
}

impl Llm for Reader {
    fn ask(&self, _: &Chat, form: &Form, _: &Sampling) -> Result<Reply, Error> {
        let Form::Json { schema, .. } = form else { panic!("{form:?}") };
        let errors = &schema["properties"]["errors"];
        self.forms.lock().unwrap().push(format!("{} to {}", errors["minItems"], errors["maxItems"]));
        let error = r#"{"error_category": "style", "error_type": "awkward", "error_span": "Satz", "explanation": "", "severity": "minor"}"#;
        let errors = if errors["maxItems"] == 0 { "" } else { error };
        let quality =
            if schema["properties"]["quality_score"].is_null() { "" } else { r#", "quality_score": 50"# };
        Ok(Reply {
            text: format!(r#"{{"errors": [{errors}]{quality}}}"#),
            finish: Finish::Form,
            ..Reply::default()
        })
    }

    fn weigh(&self, chat: &Chat, texts: &[String]) -> Result<Vec<Weighed>, Error> {
        assert_eq!(chat.prefill, r#"{"errors": ["#);
        let said = &chat.turns.last().unwrap().content;
        let focus = said.split("<target_segment>").nth(2).unwrap_or(said);
        let n_good = focus.matches("gut").count() as f64;
        let logprob = |text: &str| if text.starts_with(']') { n_good - 8.0 } else { -5.0 };
        Ok(texts.iter().map(|text| weighed(text, logprob(text))).collect())
    }

    fn count(&self, _: &Chat) -> Result<usize, Error> {
        Ok(1)
    }
}
