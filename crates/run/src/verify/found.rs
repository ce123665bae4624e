//! Collects differences: the first ones in full, the others as a count, so that memory is bounded.

use super::Difference;

/// Number of differences that are reported in full.
const TOLD: usize = 20;

/// The first differences by rank, those found earlier before those found later, and how many there are.
#[derive(Default)]
pub struct Differences {
    first: Vec<Difference>,
    n: usize,
}

impl Differences {
    pub fn push(&mut self, difference: Difference) {
        self.n += 1;
        self.first.push(difference);
        if self.first.len() > 50 * TOLD {
            self.cut();
        }
    }

    fn cut(&mut self) {
        self.first.sort_by_key(|difference| difference.rank);
        self.first.truncate(TOLD);
    }

    /// The reported differences, and the number of all.
    pub fn told(mut self) -> (Vec<Difference>, usize) {
        self.cut();
        (self.first, self.n)
    }
}

impl Extend<Difference> for Differences {
    fn extend<I: IntoIterator<Item = Difference>>(&mut self, differences: I) {
        differences.into_iter().for_each(|difference| self.push(difference));
    }
}

impl Differences {
    /// Adds differences that were collected elsewhere.
    pub fn join(&mut self, other: Self) {
        let unseen = other.n - other.first.len();
        self.extend(other.first);
        self.n += unseen;
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
        let (told, n) = found.told();
        assert_eq!(n, 8000);
        let places: Vec<String> = (0..TOLD).map(|n| n.to_string()).collect();
        assert_eq!(
            told.iter().map(|difference| &difference.place).collect::<Vec<_>>(),
            places.iter().collect::<Vec<_>>()
        );
    }
}
