//! The possible matches of an answer with a part of its form: the positions where the part may end, and the
//! missing bytes.

use super::regex::Pattern;

/// The possible results of reading a part of a form from some position.
#[derive(Default)]
pub(super) struct Outcomes {
    /// The part is complete at these positions.
    pub ends: Vec<usize>,
    /// The input ended inside the part; the shortest bytes that complete it.
    pub open: Option<Vec<u8>>,
    /// The start of the layout's span in which the input may have ended.
    pub copying: Option<usize>,
}

impl Outcomes {
    pub(super) fn end(&mut self, at: usize) {
        if !self.ends.contains(&at) {
            self.ends.push(at);
        }
    }

    pub(super) fn open(&mut self, end: Vec<u8>) {
        if self.open.as_ref().is_none_or(|known| end.len() < known.len()) {
            self.open = Some(end);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.copying = self.copying.or(other.copying);
        for at in other.ends {
            self.end(at);
        }
        if let Some(end) = other.open {
            self.open(end);
        }
    }

    /// The outcomes of this part followed by another: `rest` reads on from each end, and from nothing when
    /// the input ended inside.
    pub(super) fn then(self, input: &[u8], rest: impl Fn(&[u8], usize) -> Self) -> Self {
        let mut all = Self::default();
        for at in self.ends {
            all.merge(rest(input, at));
        }
        if let Some(mut end) = self.open
            && let Some(more) = rest(&[], 0).shortest(0)
        {
            end.extend(more);
            all.open(end);
        }
        all
    }

    /// The shortest bytes that complete the part when all of the input, up to `len`, belongs to it.
    pub(super) fn shortest(self, len: usize) -> Option<Vec<u8>> {
        if self.ends.contains(&len) { Some(Vec::new()) } else { self.open }
    }
}

/// The possible results of reading a pattern.
pub(super) fn scalar(pattern: &Pattern, input: &[u8], at: usize) -> Outcomes {
    let reading = pattern.read(&input[at..]);
    let mut outcomes = Outcomes::default();
    for n in reading.complete {
        outcomes.end(at + n);
    }
    if let Some(end) = reading.end.filter(|end| !end.is_empty()) {
        outcomes.open(end);
    }
    outcomes
}
