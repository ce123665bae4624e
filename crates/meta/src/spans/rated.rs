//! The raters' errors in the unit of one verdict, with their offsets shifted into its text, and the rated
//! parts of that text. Nothing is compared here.

use std::ops::Range;

use super::{Span, severity};
use crate::mqm::ratings::{RatedError, Ratings};
use crate::units::Unit;
use crate::verdicts::Verdict;

/// The raters' errors in a verdict's unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Rated {
    /// Places in the joined texts of the verdict.
    pub spans: Vec<Span>,
    /// The marked texts of the translation.
    pub texts: Vec<String>,
    /// Segments of the unit that were rated.
    pub n_segments: usize,
    /// The rated parts of source and translation; `None` where everything is rated.
    parts: Option<Parts>,
}

/// The parts of source and translation that were rated.
#[derive(Clone, Debug, Default, PartialEq)]
struct Parts {
    source: Vec<Range<usize>>,
    target: Vec<Range<usize>>,
}

impl Rated {
    /// The ratings of a unit's segments, each by the first rater that rated it; `None` where none did.
    pub fn new(verdict: &Verdict, unit: &Unit, ratings: &[Ratings]) -> Option<Self> {
        let chars: Vec<char> = verdict.hypothesis.chars().collect();
        let mut rated = Self { spans: Vec::new(), texts: Vec::new(), n_segments: 0, parts: None };
        let mut parts = Parts::default();
        for (idx, seg) in unit.segs.iter().enumerate() {
            let Some(errors) = Self::errors_of(ratings, &verdict.system, *seg) else { continue };
            rated.n_segments += 1;
            parts.source.push(part(&unit.source_starts, idx));
            parts.target.push(part(&unit.target_starts, idx));
            for error in errors {
                let starts = if error.is_source_error { &unit.source_starts } else { &unit.target_starts };
                let span = shifted(error, starts[idx]);
                let text = chars.get(span.start..span.end).filter(|_| !span.in_source);
                rated.texts.extend(text.map(|text| text.iter().collect::<String>()));
                rated.spans.push(span);
            }
        }
        if rated.n_segments < unit.segs.len() {
            rated.parts = Some(parts);
        }
        (rated.n_segments > 0).then_some(rated)
    }

    /// The errors that the first rater of a segment marked there; `None` if it is not rated.
    pub fn errors_of<'a>(ratings: &'a [Ratings], system: &str, seg: usize) -> Option<&'a [RatedError]> {
        ratings.iter().find_map(|rater| rater.get(system)?.get(seg)?.as_deref())
    }

    /// The rated parts of a span: the span itself where everything is rated.
    pub fn cut(&self, span: Span) -> Vec<Span> {
        let Some(Parts { source, target }) = &self.parts else { return vec![span] };
        let parts = if span.in_source { source } else { target };
        let cut = parts.iter().map(|part| Span {
            start: span.start.max(part.start),
            end: span.end.min(part.end),
            ..span
        });
        cut.filter(|span| span.start < span.end).collect()
    }
}

/// From the start of a segment to that of the next one; the last one has no end.
fn part(starts: &[usize], idx: usize) -> Range<usize> {
    starts[idx]..starts.get(idx + 1).copied().unwrap_or(usize::MAX)
}

fn shifted(error: &RatedError, by: usize) -> Span {
    Span {
        start: error.start + by,
        end: error.end + by,
        in_source: error.is_source_error,
        severity: severity(&error.severity),
    }
}
