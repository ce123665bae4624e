//! Differences between a folder's records and the re-derived values: the first ones in full, the others as a
//! count, so that memory is bounded.

use serde_json::Value;

/// A difference between a folder's records and the re-derived values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The file and the line or field.
    pub place: String,
    pub subject: String,
    pub recorded: String,
    pub derived: String,
    /// Sort key among the differences.
    pub(super) rank: (usize, usize),
}

impl Difference {
    /// A difference between the recorded value and the derived one.
    pub fn new(place: &str, subject: &str, recorded: &str, derived: &str) -> Self {
        let text = str::to_owned;
        Self {
            place: place.into(),
            subject: subject.into(),
            recorded: text(recorded),
            derived: text(derived),
            rank: (0, 0),
        }
    }

    /// Renames the subject of the difference.
    #[must_use]
    pub fn on(self, subject: String) -> Self {
        Self { subject, ..self }
    }

    pub(super) fn at(self, rank: (usize, usize)) -> Self {
        Self { rank, ..self }
    }
}

/// Two texts from shortly before the first character at which they differ.
pub fn around(a: &str, b: &str) -> (String, String) {
    const BEFORE: usize = 30;
    const LEN: usize = 100;
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(BEFORE);
    let cut = |text: &str| {
        let part: String = text.chars().skip(from).take(LEN).collect();
        let before = if from > 0 { "…" } else { "" };
        let after = if text.chars().count() > from + LEN { "…" } else { "" };
        format!("{before}{part}{after}")
    };
    (cut(a), cut(b))
}

/// The first place at which two JSON values differ, as a path of fields, with both values there.
pub fn unlike(recorded: &Value, derived: &Value) -> Option<(String, String, String)> {
    let missing = || "no such field".to_owned();
    let deeper = |name: String, found: Option<(String, String, String)>| {
        found.map(|(at, recorded, derived)| {
            (if at.is_empty() { name.clone() } else { format!("{name}.{at}") }, recorded, derived)
        })
    };
    match (recorded, derived) {
        (Value::Object(a), Value::Object(b)) => {
            let gone = b.iter().find(|(name, _)| !a.contains_key(*name));
            let gone = gone.map(|(name, value)| (name.clone(), missing(), value.to_string()));
            let of_field = |(name, value): (&String, &Value)| match b.get(name) {
                Some(other) => deeper(name.clone(), unlike(value, other)),
                None => Some((name.clone(), value.to_string(), missing())),
            };
            a.iter().find_map(of_field).or(gone)
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(i, (a, b))| deeper(i.to_string(), unlike(a, b)))
        }
        (a, b) => {
            // As text: every bit of a number counts.
            let (a, b) = (a.to_string(), b.to_string());
            (a != b).then(|| (String::new(), a, b))
        }
    }
}

/// Number of differences that are reported in full.
const SHOWN: usize = 20;

/// The first differences by rank, those found earlier before those found later, and how many there are.
#[derive(Default)]
pub struct Differences {
    first: Vec<Difference>,
    n: usize,
}

impl Differences {
    /// Adds a difference whose rank is the first.
    pub fn add(&mut self, place: &str, subject: &str, recorded: &str, derived: &str) {
        self.push(Difference::new(place, subject, recorded, derived));
    }

    pub fn push(&mut self, difference: Difference) {
        self.n += 1;
        self.first.push(difference);
        if self.first.len() > 50 * SHOWN {
            self.cut();
        }
    }

    fn cut(&mut self) {
        self.first.sort_by_key(|difference| difference.rank);
        self.first.truncate(SHOWN);
    }

    /// The reported differences, and the number of all.
    pub fn first(mut self) -> (Vec<Difference>, usize) {
        self.cut();
        (self.first, self.n)
    }

    /// Adds differences that were collected elsewhere.
    pub fn join(&mut self, other: Self) {
        let unseen = other.n - other.first.len();
        self.extend(other.first);
        self.n += unseen;
    }
}

impl Extend<Difference> for Differences {
    fn extend<I: IntoIterator<Item = Difference>>(&mut self, differences: I) {
        differences.into_iter().for_each(|difference| self.push(difference));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_kept_and_all_are_counted() {
        let difference = |n: usize| Difference::new(&n.to_string(), "", "", "").at((n, 0));
        let (mut found, mut other) = (Differences::default(), Differences::default());
        found.extend((5000..8000).rev().map(difference));
        other.extend((0..5000).map(difference));
        found.join(other);
        let (shown, n) = found.first();
        assert_eq!(n, 8000);
        let places: Vec<String> = (0..SHOWN).map(|n| n.to_string()).collect();
        assert_eq!(
            shown.iter().map(|difference| &difference.place).collect::<Vec<_>>(),
            places.iter().collect::<Vec<_>>()
        );
    }
}
