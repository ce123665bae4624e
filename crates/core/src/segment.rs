//! Segments, their documents and languages. Scores and models are elsewhere.

use serde::{Deserialize, Serialize};

pub mod corpus;
pub mod lang;
pub mod language_id;
pub mod mixed_up;
pub mod numbers;
pub mod read;
pub mod script;
pub mod shifted;
pub mod trained;
pub mod untranslated;
pub mod wmt;

pub use corpus::{Corpus, Outline, Segments};
pub use lang::Lang;

/// Separator between the segments of a group, where a judge sees them as one text.
pub const JOINT: &str = "\n";

/// The source and the hypothesis of a whole group, as a verdict on the group shows them: its error spans
/// are offsets in these texts.
pub fn joined(group: &[Segment]) -> (String, String) {
    let join = |text: fn(&Segment) -> &str| group.iter().map(text).collect::<Vec<_>>().join(JOINT);
    (join(|s| &s.source), join(|s| &s.hypothesis))
}

/// A segment's number as people count, from 1, beside its id, the number from 0 that files hold:
/// `segment 7 (id 6)`.
pub fn numbered(seg: usize) -> String {
    format!("segment {} (id {seg})", seg.saturating_add(1))
}

/// One translated segment, the unit of most judges' verdicts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The system that translated it (a file's stem if none is named).
    pub system: String,
    /// The document it belongs to; the segments of a document are in order. Empty if the input names no
    /// documents: the segment then stands alone.
    pub doc: String,
    /// Its id: the input's own, or its position among the segments of its system, from 0. People see
    /// [`numbered`].
    pub seg: usize,
    pub src_lang: Lang,
    pub tgt_lang: Lang,
    pub source: String,
    pub hypothesis: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Topic or origin of the text, as the input names it: `news`, `social`. `None` if the input has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Kind of the reference, as the input names it: `postedit`. `None` if the input has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_kind: Option<String>,
}

impl Segment {
    /// A translation that stands alone: no document, no reference, the system's name is empty.
    pub fn new((src_lang, tgt_lang): (Lang, Lang), source: &str, hypothesis: &str) -> Self {
        Self {
            system: String::new(),
            doc: String::new(),
            seg: 0,
            src_lang,
            tgt_lang,
            source: source.to_owned(),
            hypothesis: hypothesis.to_owned(),
            reference: None,
            domain: None,
            reference_kind: None,
        }
    }

    /// The segment without its texts.
    pub fn outline(&self) -> Outline<'_> {
        let Self { system, doc, seg, src_lang, tgt_lang, source, hypothesis, .. } = self;
        Outline { system, doc, seg: *seg, src_lang, tgt_lang, n_bytes: source.len() + hypothesis.len() }
    }

    /// Returns true if source and hypothesis are both empty or white space, so that there is nothing to
    /// judge.
    pub fn is_blank(&self) -> bool {
        self.source.trim().is_empty() && self.hypothesis.trim().is_empty()
    }
}
