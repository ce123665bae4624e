//! Plain text tables for the terminal: aligned columns, a rule under the head, no colour. Nothing in it
//! depends on the contents.

use std::fmt;

use unicode_width::UnicodeWidthStr;

/// Rows of cells; the first column is flush left, all others flush right.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Header lines above the columns; in all but the last, equal neighbours are merged.
    heads: Vec<Vec<String>>,
    rows: Vec<Vec<String>>,
    /// All columns are flush left: their cells are words.
    of_words: bool,
}

impl Table {
    pub fn new() -> Self {
        Self::default()
    }

    /// A table with one header line, whose cells are separated by ` | `.
    pub fn headed(header: &str) -> Self {
        Self { heads: vec![header.split(" | ").map(str::to_owned).collect()], ..Self::default() }
    }

    /// A table with a header and rows.
    pub fn from_rows<const N: usize, T: Into<String>, R: IntoIterator<Item = T>>(
        head: [&str; N],
        rows: impl IntoIterator<Item = R>,
    ) -> Self {
        let mut table = Self::new();
        table.head(head);
        rows.into_iter().for_each(|row| table.row(row));
        table
    }

    pub fn head<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.heads.push(cells.into_iter().map(Into::into).collect());
    }

    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Aligns all columns flush left.
    #[must_use]
    pub fn flush_left(mut self) -> Self {
        self.of_words = true;
        self
    }

    /// One header and the rows, for programs: headers above each other are joined.
    pub fn flat(&self) -> impl Iterator<Item = Vec<String>> {
        let columns = self.heads.iter().map(Vec::len).max().unwrap_or(0);
        let name = |column: usize| {
            let parts = self.heads.iter().filter_map(|cells| cells.get(column));
            parts.filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(" ")
        };
        let head: Vec<String> = (0..columns).map(name).collect();
        std::iter::once(head).filter(|head| !head.is_empty()).chain(self.rows.clone())
    }

    /// The table in parts below each other, each with the first column and, where its cells allow, at most
    /// `width` wide.
    pub fn within(&self, width: usize) -> String {
        let widths = self.widths();
        let mut parts: Vec<Vec<usize>> = Vec::new();
        let mut taken = usize::MAX;
        for (column, needed) in widths.iter().enumerate().skip(1) {
            match parts.last_mut() {
                Some(part) if taken.saturating_add(needed + 2) <= width => {
                    part.push(column);
                    taken += needed + 2;
                }
                _ => {
                    parts.push(vec![0, column]);
                    taken = widths[0] + needed + 2;
                }
            }
        }
        if parts.len() < 2 {
            return self.to_string();
        }
        let printed: Vec<String> = parts.iter().map(|columns| self.columns(columns).to_string()).collect();
        printed.join("\n")
    }

    /// [`Table::within`] a width, or the whole table without one.
    pub fn fitted(&self, width: Option<usize>) -> String {
        width.map_or_else(|| self.to_string(), |width| self.within(width))
    }

    fn columns(&self, columns: &[usize]) -> Self {
        let pick = |cells: &Vec<String>| {
            columns.iter().filter_map(|column| cells.get(*column)).cloned().collect::<Vec<_>>()
        };
        let (heads, rows) = (self.heads.iter().map(pick).collect(), self.rows.iter().map(pick).collect());
        Self { heads, rows, ..*self }
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.heads.iter().chain(&self.rows).map(Vec::len).max().unwrap_or(0);
        let last_head = self.heads.len().saturating_sub(1);
        (0..columns)
            .map(|column| {
                let heads = self.heads.iter().enumerate().filter_map(|(line, cells)| {
                    // A header that spans its right neighbours does not widen its own column.
                    (line == last_head).then(|| cells.get(column)).flatten()
                });
                let rows = self.rows.iter().filter_map(|cells| cells.get(column));
                heads.chain(rows).map(|cell| cell.width()).max().unwrap_or(0)
            })
            .collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut widths = self.widths();
        let last = self.heads.len().saturating_sub(1);
        widen_for_groups(&self.heads[..last.min(self.heads.len())], &mut widths);
        for (line, cells) in self.heads.iter().enumerate() {
            if line < last {
                group_line(f, cells, &widths)?;
            } else {
                line_of(f, cells, &widths, self.of_words)?;
            }
        }
        if !self.heads.is_empty() {
            writeln!(f, "{}", "─".repeat(widths.iter().map(|w| w + 2).sum::<usize>().saturating_sub(2)))?;
        }
        self.rows.iter().try_for_each(|cells| line_of(f, cells, &widths, self.of_words))
    }
}

/// Runs of equal cells in a header line: the cell and how many columns it spans.
fn spans(cells: &[String]) -> Vec<(&str, usize)> {
    cells.chunk_by(|a, b| a == b).map(|run| (run[0].as_str(), run.len())).collect()
}

fn widen_for_groups(heads: &[Vec<String>], widths: &mut [usize]) {
    for cells in heads {
        let mut column = 0;
        for (cell, span) in spans(cells) {
            let width = widths[column..column + span].iter().map(|w| w + 2).sum::<usize>().saturating_sub(2);
            let lacking = cell.width().saturating_sub(width);
            widths[column + span - 1] += lacking;
            column += span;
        }
    }
}

fn group_line(f: &mut fmt::Formatter<'_>, cells: &[String], widths: &[usize]) -> fmt::Result {
    let mut parts = Vec::with_capacity(cells.len());
    let mut column = 0;
    for (cell, span) in spans(cells) {
        let width = widths[column..column + span].iter().map(|w| w + 2).sum::<usize>().saturating_sub(2);
        parts.push(left(cell, width));
        column += span;
    }
    writeln!(f, "{}", parts.join("  ").trim_end())
}

/// A cell with blanks up to a width in columns, of which a wide character takes two.
fn left(cell: &str, width: usize) -> String {
    cell.to_owned() + &" ".repeat(width.saturating_sub(cell.width()))
}

fn line_of(f: &mut fmt::Formatter<'_>, cells: &[String], widths: &[usize], of_words: bool) -> fmt::Result {
    let part = |(column, (cell, width)): (usize, (&String, &usize))| {
        if column == 0 || of_words {
            left(cell, *width)
        } else {
            " ".repeat(width.saturating_sub(cell.width())) + cell
        }
    };
    let parts: Vec<String> = cells.iter().zip(widths).enumerate().map(part).collect();
    writeln!(f, "{}", parts.join("  ").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_with_their_headers() {
        let mut table = Table::new();
        table.head(["", "en-de", "en-de", "zh-en"]);
        table.head(["metric", "acc", "r", "acc"]);
        table.row(["BLEU", "0.894", "0.917", "0.781"]);
        table.row(["a longer name", "0.9", "-1", "0"]);
        insta::assert_snapshot!(table.to_string(), @r"
                       en-de         zh-en
        metric           acc      r    acc
        ──────────────────────────────────
        BLEU           0.894  0.917  0.781
        a longer name    0.9     -1      0
        ");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let mut table = Table::new();
        table.head(["system", "value"]);
        table.row(["腾讯翻译", "1"]);
        table.row(["ONLINE-B", "22"]);
        insta::assert_snapshot!(table.to_string(), @r"
        system    value
        ───────────────
        腾讯翻译      1
        ONLINE-B     22
        ");
    }

    #[test]
    fn programs_get_one_header() {
        let mut table = Table::new();
        table.head(["", "en-de", "en-de"]);
        table.head(["metric", "acc", "r"]);
        table.row(["BLEU", "0.894", "0.917"]);
        let flat: Vec<Vec<String>> = table.flat().collect();
        assert_eq!(flat, [["metric", "en-de acc", "en-de r"], ["BLEU", "0.894", "0.917"]]);
    }

    #[test]
    fn a_wide_table_is_printed_in_parts() {
        let mut table = Table::new();
        table.head(["", "sys", "sys", "seg"]);
        table.head(["metric", "acc", "r", "acc-eq"]);
        table.row(["BLEU", "0.894", "0.917", "0.781"]);
        insta::assert_snapshot!(table.within(20), @r"
                sys
        metric    acc      r
        ────────────────────
        BLEU    0.894  0.917

                seg
        metric  acc-eq
        ──────────────
        BLEU     0.781
        ");
        assert_eq!(table.within(28), table.to_string());
    }
}
