//! The language pair of a row: the one that it names, or the one that the user gives for rows without
//! languages. Rows of other pairs than the user's are counted and left out.

use std::{collections::BTreeMap, path::Path};

use super::{Error, Result};
use crate::segment::{Lang, lang, wmt};

/// A language pair.
pub type Pair = (Lang, Lang);

/// The language fields of a row; empty if absent.
pub struct Named<'r> {
    pub line: usize,
    pub src: Option<String>,
    pub tgt: Option<String>,
    /// Both at once, `en-de`.
    pub both: Option<String>,
    pub doc: &'r str,
}

/// Selection of rows by pair, and counts of those left out.
pub struct Wanted<'a> {
    chosen: Option<&'a Pair>,
    /// The first row that names other languages than the user, though not another pair, and which.
    finer: Option<(usize, String)>,
    /// Rows of other pairs.
    others: BTreeMap<String, usize>,
}

impl<'a> Wanted<'a> {
    /// Rows of the pair that the user gives; without one all, if they name their own.
    pub fn new(chosen: Option<&'a Pair>) -> Self {
        Self { chosen, finer: None, others: BTreeMap::new() }
    }

    /// The pair of a row; `None` for a row that is left out.
    pub fn pair(&mut self, path: &Path, named: &Named) -> Result<Option<Pair>> {
        let pair = named.pair(path, self.chosen)?;
        let Some(chosen) = self.chosen.filter(|chosen| **chosen != pair) else { return Ok(Some(pair)) };
        let name = format!("{}-{}", pair.0, pair.1);
        if !is_meant(&pair, (&chosen.0, &chosen.1)) {
            *self.others.entry(name).or_default() += 1;
            return Ok(None);
        }
        self.finer.get_or_insert((named.line, name));
        Ok(Some(pair))
    }

    /// Notes for the user about the rows' languages.
    pub fn notes(&self, path: &Path) -> Vec<String> {
        let (path, mut notes) = (path.display(), Vec::new());
        let Some((src, tgt)) = self.chosen else { return notes };
        if let Some((line, found)) = &self.finer {
            notes.push(format!(
                "`{path}` line {line} names the languages `{found}`, which hold there, not `{src}-{tgt}`"
            ));
        }
        if !self.others.is_empty() {
            let n: usize = self.others.values().sum();
            let rows = if n == 1 { "row is" } else { "rows are" };
            notes.push(format!(
                "`{path}`: {n} {rows} of other language pairs than `{src}-{tgt}` and left out ({})",
                self.listed()
            ));
        }
        notes
    }

    /// An error for a file of which nothing was read because all of it is of other pairs.
    pub fn check(&self, path: &Path) -> Result<()> {
        match self.chosen.filter(|_| !self.others.is_empty()) {
            None => Ok(()),
            Some((src, tgt)) => Err(Error::OtherPairs {
                path: path.into(),
                pair: format!("{src}-{tgt}"),
                listed: self.listed(),
            }),
        }
    }

    /// `en-de 12, en-uk_UA 3`
    fn listed(&self) -> String {
        let listed: Vec<String> = self.others.iter().map(|(pair, n)| format!("{pair} {n}")).collect();
        listed.join(", ")
    }
}

/// Returns true if a pair is the selected one, with codes that may leave out script and region.
pub fn is_meant(pair: &Pair, chosen: (&Lang, &Lang)) -> bool {
    agree(&pair.0, chosen.0) && agree(&pair.1, chosen.1)
}

/// Returns true if two codes can mean one language: one of them may leave out script and region.
fn agree(one: &Lang, other: &Lang) -> bool {
    let parts = |lang: &Lang| lang.code().split('_').skip(1).map(str::to_owned).collect::<Vec<_>>();
    let (a, b) = (parts(one), parts(other));
    let is_within = |few: &[String], many: &[String]| few.iter().all(|part| many.contains(part));
    one.language() == other.language() && (is_within(&a, &b) || is_within(&b, &a))
}

impl Named<'_> {
    /// The pair by a column for each language, a column for both, or the document; else the given one.
    fn pair(&self, path: &Path, chosen: Option<&Pair>) -> Result<Pair> {
        let wrong = |source| Error::Lang { path: path.into(), line: self.line, source };
        let code = |field: &'_ Option<String>| field.clone().filter(|code| !code.trim().is_empty());
        let both = match code(&self.both) {
            Some(pair) => Some(lang::parse_pair(&pair).map_err(wrong)?),
            None => wmt::Id::of_document(self.doc).and_then(|id| id.pair),
        };
        let default = both.as_ref().or(chosen);
        let one = |field, default: Option<&Lang>| match code(field) {
            Some(code) => Lang::parse(&code).map_err(wrong),
            None => default.cloned().ok_or(Error::NoPair { path: path.into(), line: self.line }),
        };
        Ok((one(&self.src, default.map(|p| &p.0))?, one(&self.tgt, default.map(|p| &p.1))?))
    }
}
