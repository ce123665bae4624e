//! Content of one question of FSP: the texts of a group, or of a window of it, and the focus in them. No
//! model is called here.

use std::ops::Range;

use super::sentences;
use crate::segment::{JOINT, Segment};

/// The texts of a prompt without its focus: the shared prefix of a group's prompts.
pub(super) struct Document<'a> {
    pub source_lang: &'a str,
    pub source: String,
    pub target_lang: &'a str,
    pub target: String,
}

/// The focus of one question: a segment's hypothesis, or a sentence of it.
pub(super) struct Focus<'a> {
    /// Index of the segment in the group.
    pub segment: usize,
    /// Number of the sentence in the segment, from 0.
    pub sentence: usize,
    /// Byte range in the hypothesis.
    pub range: Range<usize>,
    pub text: &'a str,
}

impl<'a> Document<'a> {
    pub fn join(group: &'a [Segment]) -> Option<Self> {
        let first = group.first()?;
        let join = |text: fn(&Segment) -> &str| group.iter().map(text).collect::<Vec<_>>().join(JOINT);
        Some(Self {
            source_lang: first.src_lang.name(),
            source: join(|s| &s.source),
            target_lang: first.tgt_lang.name(),
            target: join(|s| &s.hypothesis),
        })
    }
}

impl Focus<'_> {
    /// The pieces that are shown: segments of the group, or sentences where one segment is all of it.
    pub fn window(&self, group: &[Segment], parts: usize) -> Range<usize> {
        match group {
            // A focus that is all of the text leaves nothing to cut.
            [only] if self.range == (0..only.hypothesis.len()) => 0..1,
            [only] => sentences::window(sentences::split(&only.hypothesis).len(), self.sentence, parts),
            _ => sentences::window(group.len(), self.segment, parts),
        }
    }

    /// The shown part of the group, and the byte offset of the focus in its translation.
    pub fn shown<'g>(&self, group: &'g [Segment], parts: usize) -> (Document<'g>, usize) {
        let window = self.window(group, parts);
        if let ([only], true) = (group, parts > 1) {
            let (targets, sources) = (sentences::split(&only.hypothesis), sentences::split(&only.source));
            // As far into the source as into the translation, and one more sentence on either side.
            let scaled = |at: usize| at * sources.len() / targets.len();
            let last = (scaled(window.end) + 1).min(sources.len() - 1);
            let source = sources[scaled(window.start).saturating_sub(1)].start..sources[last].end;
            let target = targets[window.start].start..targets[window.end - 1].end;
            let at = self.range.start - target.start;
            let document = Document {
                source_lang: only.src_lang.name(),
                source: only.source[source].to_owned(),
                target_lang: only.tgt_lang.name(),
                target: only.hypothesis[target].to_owned(),
            };
            return (document, at);
        }
        let first = if group.len() > 1 { window.start } else { 0 };
        let shown = if group.len() > 1 { &group[window] } else { group };
        let before = shown[..self.segment - first].iter().map(|s| s.hypothesis.len() + JOINT.len());
        let at = before.sum::<usize>() + self.range.start;
        (Document::join(shown).expect("a focus stands in a group that is not empty"), at)
    }
}
