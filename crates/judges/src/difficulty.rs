//! Difficulty of translating a source, from 1 to 10: the filter by which MENT's sentences were chosen. Tian
//! et al., "Beyond Literal Mapping", Appendix A.1, Figure 8. No translation is judged: there is one call per
//! source, and all its translations get the same verdict.
//!
//! Differs:
//! - Language. The figure says "English text"; ours says the source's language. All other words are the
//!   figure's.
//! - Where the text stands is not printed; ours puts it last, after `Text:`.
//! - Answers. `paper` reads the JSON that the prompt requests; `strict` constrains it, its reasons to 800
//!   characters.
//! - The paper does not say which scores are high enough to be kept; `--keep` takes a threshold or a share.
//! - `raw` is the difficulty; `score` is its negative, for everywhere a higher score promises better
//!   translations.
//! - The reasoning is in `calls.jsonl`.

use super::{
    Method, Reads, Stage,
    answers::rating::Rating,
    declaration::{self, Answers, Declaration},
    method::Calls,
    prompt::{File, file},
    scale::{Scale, Unit},
    setup::Preset,
};

const PROMPT: File = file!("difficulty/difficulty.j2");
const FORM: File = file!("difficulty/form.json");

/// The stages of its calls.
const RATE: Stage = Stage::new("rate");

/// Metadata shown by `tribunal methods show difficulty`.
pub const METHOD: Method = Method {
    name: "difficulty",
    summary: "how hard a source is to translate, 1 to 10; no translation is read",
    citation: "Tian et al., Beyond Literal Mapping (MENT): Appendix A.1, Figure 8",
    papers: &["tian-etal-2026-beyond"],
    stages: &[RATE],
    // One for all translations of a source.
    calls: Calls::exactly(1),
    answer_tokens: Some([106, 0]),
    scale: Scale::between(Unit::Difficulty, [-10.0, -1.0]).negated(),
    presets: &[Preset::Paper, Preset::Strict],
    reads: Reads::SourcesOnly,
    ..Method::with(|settings, _| declaration::judge(&METHOD, QUESTION, settings))
};

const QUESTION: Declaration = Declaration::message(
    RATE,
    PROMPT,
    Answers::Rating { rating: Rating::ReasonedScore { schema: FORM }, expected_after: None },
    512,
);
