//! Cells of tables that people open in spreadsheets, which run text that begins with `=`, `+`, `-` or `@` as
//! a formula. It writes no tables.
//!
//! Source: OWASP, "CSV Injection".

use std::borrow::Cow;

/// Treatment of cells that a spreadsheet would run as a formula. Numbers are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Formulas {
    /// An apostrophe before it keeps it text
    #[default]
    Quote,
    /// Nothing is written
    Refuse,
    /// It is written as it is, for programs that read the table back
    Keep,
}

/// A cell that begins like a formula.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the cell {0:?} begins like a formula, which spreadsheets run\nhint: `--formulas quote` puts an apostrophe before such \
     cells, `--formulas keep` leaves them as they are"
)]
pub struct Formula(String);

/// Length of a cell's text in a message. Unit: characters.
const SHOWN: usize = 40;

impl Formulas {
    /// A text as a cell.
    ///
    /// ```
    /// use tribunal_report::Formulas;
    /// let quoted = |text| Formulas::Quote.cell(text).unwrap().into_owned();
    /// assert_eq!(quoted("=SUM(A1)"), "'=SUM(A1)");
    /// assert_eq!((quoted("-0.5"), quoted("-"), quoted("- Ja.")), ("-0.5".into(), "-".into(), "'- Ja.".into()));
    /// assert!(Formulas::Refuse.cell("@x").is_err());
    /// assert_eq!(Formulas::Keep.cell("@x").unwrap(), "@x");
    /// ```
    ///
    /// # Errors
    /// [`Formula`] with [`Formulas::Refuse`].
    pub fn cell(self, text: &str) -> Result<Cow<'_, str>, Formula> {
        match self {
            _ if !is_formula(text) => Ok(Cow::Borrowed(text)),
            Self::Quote => Ok(Cow::Owned(format!("'{text}"))),
            Self::Refuse => Err(Formula(text.chars().take(SHOWN).collect())),
            Self::Keep => Ok(Cow::Borrowed(text)),
        }
    }

    /// A row of cells.
    ///
    /// # Errors
    /// The errors of [`Formulas::cell`].
    pub fn row(self, cells: Vec<String>) -> Result<Vec<String>, Formula> {
        cells.into_iter().map(|cell| self.cell(&cell).map(Cow::into_owned)).collect()
    }
}

/// Returns true if a spreadsheet would run a cell.
#[must_use]
pub fn is_formula(text: &str) -> bool {
    let begins = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    begins && !is_number(text.strip_suffix('%').unwrap_or(text)) && text != "-" && text != "+"
}

fn is_number(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c)) && text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_spreadsheet_would_run() {
        for text in ["=1+1", "+49 30 1", "-1+1", "- Ja", "@SUM", "\t=1", "\r=1", "-inf", "=", "+e"] {
            assert!(is_formula(text), "{text:?}");
        }
        for text in ["", "-0.5", "-1e-7", "+3", "-12%", "-", "+", "'=1", " =1", "a=1", "[-1, 1]"] {
            assert!(!is_formula(text), "{text:?}");
        }
    }
}
