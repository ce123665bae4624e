//! Examples as tokens: the prompt as the engine reads it, and the answer along the way that the constrained decoder
//! takes, forced tokens included. It runs no model.

use std::collections::VecDeque;

use super::{Error, examples::Example, lower::Text};
use crate::{
    engine::{Engine, grammar::Grammar, tokenizer::Tokenizer},
    judges::Granularity,
};

/// An example's tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded {
    /// Prompt, answer, and the token that ends a turn.
    pub ids: Vec<u32>,
    pub n_prompt: usize,
    pub granularity: Granularity,
}

impl Encoded {
    /// What the model reads: all but the last token. The row of the prompt's last token is the first that says something.
    #[must_use]
    pub fn text(&self) -> Text<'_> {
        Text { tokens: &self.ids[..self.ids.len() - 1], wanted_from: self.n_prompt - 1 }
    }

    /// What it should say.
    #[must_use]
    pub fn targets(&self) -> &[u32] {
        &self.ids[self.n_prompt..]
    }
}

/// An example in an engine's tokens; `None` when its answer has not the form that the judge enforces.
///
/// # Errors
/// A model without a chat template or without an end of turn, a form that cannot be compiled.
pub fn encode(engine: &Engine, example: &Example) -> Result<Option<Encoded>, Error> {
    let mut ids = engine.prompt_ids(&example.question.chat)?;
    let n_prompt = ids.len();
    let tokenizer = engine.tokenizer();
    let end = tokenizer.eos().or_else(|| tokenizer.stops().first().copied());
    let end = end.ok_or_else(|| Error::Unsuitable("the model has no token that ends a turn".into()))?;
    let answer = match engine.grammar(&example.question.form)? {
        Some(mut grammar) => path(&mut grammar, tokenizer, &example.answer),
        None => tokenizer.encode_data(&example.answer).ok(),
    };
    let Some(answer) = answer else { return Ok(None) };
    ids.extend(answer);
    ids.push(end);
    Ok(Some(Encoded { ids, n_prompt, granularity: example.unit.granularity }))
}

/// More tokens than any answer has.
const BUDGET: usize = 1 << 20;

/// The tokens by which the decoder says an answer: what the form forces as the engine spells it, and between that the
/// tokenizer's own spelling of what is left. `None` where the form does not allow the answer.
fn path(grammar: &mut Grammar, tokenizer: &Tokenizer, answer: &str) -> Option<Vec<u32>> {
    let (mut taken, mut at) = (Vec::new(), 0);
    let mut spelled: VecDeque<u32> = VecDeque::new();
    while at < answer.len() {
        let forced = grammar.force(BUDGET).ok()?;
        for &id in &forced {
            at += of(tokenizer, id, answer, at)?;
        }
        if !forced.is_empty() {
            // What was spelled goes on where the forced tokens are its own.
            if !forced.iter().all(|id| spelled.pop_front() == Some(*id)) {
                spelled.clear();
            }
            taken.extend(&forced);
            continue;
        }
        if spelled.is_empty() {
            spelled = spelling(tokenizer, answer, at)?;
        }
        let id = spelled.pop_front()?;
        at += of(tokenizer, id, answer, at)?;
        grammar.advance(id).ok()?;
        taken.push(id);
    }
    grammar.may_stop().then_some(taken)
}

/// The tokenizer's spelling of an answer from a byte on. Within a character, which forced tokens can end in, the bytes
/// up to its end are tokens of their own.
fn spelling(tokenizer: &Tokenizer, answer: &str, at: usize) -> Option<VecDeque<u32>> {
    let boundary = (at..=answer.len()).find(|&byte| answer.is_char_boundary(byte))?;
    let of_byte = |byte: u8| {
        let ids = 0..tokenizer.vocab_size() as u32;
        ids.into_iter().find(|&id| !tokenizer.is_control(id) && tokenizer.bytes(id) == [byte])
    };
    let mut spelled: VecDeque<u32> =
        answer.as_bytes()[at..boundary].iter().map(|&byte| of_byte(byte)).collect::<Option<_>>()?;
    spelled.extend(tokenizer.encode_data(&answer[boundary..]).ok()?);
    Some(spelled)
}

/// The length of a token, if it stands at this byte of the answer.
fn of(tokenizer: &Tokenizer, id: u32, answer: &str, at: usize) -> Option<usize> {
    let bytes = tokenizer.bytes(id);
    answer.as_bytes().get(at..)?.starts_with(bytes).then_some(bytes.len())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{
        engine::Options,
        judges::Settings,
        mqm::{ErrorSpan, Severity, Side},
        segment::{Segment, lang::parse_pair},
        tune::examples::{self, Unit},
    };

    fn example() -> Example {
        of("Die \"öde\" Brücke.")
    }

    /// An example about a translation whose word at 4..9 is wrong.
    fn of(hypothesis: &str) -> Example {
        let (src_lang, tgt_lang) = parse_pair("en-de").unwrap();
        let segment = Segment {
            system: "A".into(),
            doc: "d".into(),
            seg: 0,
            src_lang,
            tgt_lang,
            source: "The \"old\" bridge.".into(),
            hypothesis: hypothesis.into(),
            reference: None,
        };
        let error = |category: &str, side, start, end| ErrorSpan {
            side,
            start: Some(start),
            end: Some(end),
            ..ErrorSpan::new(category, "", Severity::Major)
        };
        let errors = vec![
            error("accuracy/mistranslation", Side::Target, 4, 9),
            error("accuracy/omission", Side::Source, 11, 17),
        ];
        let unit = Unit {
            granularity: Granularity::Seg,
            docs: vec!["en-de/d".into()],
            segments: vec![segment],
            errors: vec![errors],
        };
        let judge = examples::judge(Granularity::Seg, &Settings::default()).unwrap();
        examples::example(unit, &judge, &examples::empty_panel()).unwrap()
    }

    fn engine() -> Engine {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let template = std::fs::read_to_string(root.join("models/templates/plain.j2")).unwrap();
        let options = Options { chat_template: Some(template), ..Options::default() };
        Engine::open(&root.join("models/tiny/qwen2"), &options).unwrap()
    }

    #[test]
    fn what_is_taught_is_what_the_decoder_takes() {
        let (engine, example) = (engine(), example());
        assert!(example.answer.contains(r#""error_span": "\"öde\"""#), "{}", example.answer);
        let encoded = encode(&engine, &example).unwrap().unwrap();
        let tokenizer = engine.tokenizer();
        let (end, answer) = encoded.targets().split_last().unwrap();
        let bytes: Vec<u8> = answer.iter().flat_map(|&id| tokenizer.bytes(id)).copied().collect();
        assert_eq!(String::from_utf8(bytes).unwrap(), example.answer);
        assert!(tokenizer.stops().contains(end));
        // The grammar takes it token by token, and forces what it was taught to force.
        let mut grammar = engine.grammar(&example.question.form).unwrap().unwrap();
        let mut at = 0;
        while at < answer.len() {
            let forced = grammar.force(BUDGET).unwrap();
            assert_eq!(forced, answer[at..at + forced.len()]);
            at += forced.len();
            if let Some(&id) = answer.get(at).filter(|_| forced.is_empty()) {
                grammar.advance(id).unwrap();
                at += 1;
            }
        }
        assert!(grammar.may_stop());
    }

    #[test]
    fn spans_of_all_kinds_can_be_taught() {
        let engine = engine();
        for word in ["olden", "a \\ b", "\"ode\"", "bödeb", "中文 的话", "\"öde\""] {
            let example = of(&format!("Die {word} Brücke."));
            assert!(encode(&engine, &example).unwrap().is_some(), "{}", example.answer);
        }
    }

    #[test]
    fn an_answer_that_the_form_does_not_allow_is_left_out() {
        let mut example = example();
        example.answer = example.answer.replace("öde", "alte");
        assert_eq!(encode(&engine(), &example).unwrap(), None, "the span is not in the translation");
    }
}
