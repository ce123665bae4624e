//! Tables: aligned columns under a rule for the terminal, rows of fields for programs, LaTeX for papers.
//! Nothing in it depends on the contents.

use std::{
    borrow::Cow,
    fmt::{self, Write},
};

use unicode_width::UnicodeWidthStr;

/// A cell: its text, and what distinguishes it from the others of its column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    /// The rank that a test gave: in parentheses behind the text, in LaTeX a superscript.
    pub rank: Option<usize>,
    /// A note behind the text and the rank, which LaTeX leaves out.
    pub note: String,
    /// The best of its column: bold in LaTeX.
    pub is_best: bool,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

impl Cell {
    fn shown(&self) -> Cow<'_, str> {
        match self.rank {
            None if self.note.is_empty() => Cow::Borrowed(&self.text),
            None => Cow::Owned(self.text.clone() + &self.note),
            Some(rank) => Cow::Owned(format!("{} ({rank}){}", self.text, self.note)),
        }
    }

    fn latex(&self) -> String {
        let words = self.text.split(' ').map(|word| match word.strip_prefix('-') {
            Some("") => "--".to_owned(),
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => format!("$-${}", escaped(rest)),
            _ => escaped(word),
        });
        let mut text = words.collect::<Vec<_>>().join(" ");
        if self.is_best {
            text = format!("\\textbf{{{text}}}");
        }
        self.rank.map_or_else(|| text.clone(), |rank| format!("{text}$^{{{rank}}}$"))
    }
}

/// Rows of cells; the first column is flush left, all others flush right.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Header lines above the columns; in all but the last, equal neighbours are merged.
    heads: Vec<Vec<String>>,
    rows: Vec<Vec<Cell>>,
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
    pub fn from_rows<const N: usize, T: Into<Cell>, R: IntoIterator<Item = T>>(
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

    pub fn row<T: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = T>) {
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
        let rows = self.rows.iter().map(|cells| cells.iter().map(|cell| cell.shown().into_owned()).collect());
        std::iter::once(head).filter(|head| !head.is_empty()).chain(rows)
    }

    /// A `tabular` for LaTeX with the package `booktabs`, below `notes` as comments.
    #[must_use]
    pub fn latex(&self, notes: &[String]) -> String {
        let columns =
            self.heads.iter().map(Vec::len).chain(self.rows.iter().map(Vec::len)).max().unwrap_or(0);
        let aligned = if self.of_words { "l" } else { "r" }.repeat(columns.saturating_sub(1));
        let mut out = String::from("% \\usepackage{booktabs}\n");
        for line in notes.iter().flat_map(|note| note.lines()).filter(|line| !line.is_empty()) {
            let _ = writeln!(out, "% {line}");
        }
        let _ = writeln!(out, "\\begin{{tabular}}{{l{aligned}}}\n\\toprule");
        let last = self.heads.len().saturating_sub(1);
        for (line, cells) in self.heads.iter().enumerate() {
            let spans = if line < last { spans(cells) } else { cells.iter().map(|c| (&c[..], 1)).collect() };
            let (mut rules, mut column) = (String::new(), 1);
            let parts = spans.iter().map(|(cell, span)| {
                let (first, text) = (column, escaped(cell));
                column += span;
                if *span == 1 || cell.is_empty() {
                    return text + &" &".repeat(span - 1);
                }
                let _ = write!(rules, "\\cmidrule(lr){{{first}-{}}}", column - 1);
                format!("\\multicolumn{{{span}}}{{c}}{{{text}}}")
            });
            let _ = writeln!(out, "{} \\\\{rules}", parts.collect::<Vec<_>>().join(" & "));
        }
        out += if self.heads.is_empty() { "" } else { "\\midrule\n" };
        for cells in &self.rows {
            let _ = writeln!(out, "{} \\\\", cells.iter().map(Cell::latex).collect::<Vec<_>>().join(" & "));
        }
        out + "\\bottomrule\n\\end{tabular}\n"
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
        fn pick<T: Clone>(columns: &[usize], lines: &[Vec<T>]) -> Vec<Vec<T>> {
            let cells =
                |line: &Vec<T>| columns.iter().filter_map(|column| line.get(*column)).cloned().collect();
            lines.iter().map(cells).collect()
        }
        Self { heads: pick(columns, &self.heads), rows: pick(columns, &self.rows), ..*self }
    }

    fn widths(&self) -> Vec<usize> {
        let columns =
            self.heads.iter().map(Vec::len).chain(self.rows.iter().map(Vec::len)).max().unwrap_or(0);
        let last_head = self.heads.len().saturating_sub(1);
        (0..columns)
            .map(|column| {
                let heads = self.heads.iter().enumerate().filter_map(|(line, cells)| {
                    // A header that spans its right neighbours does not widen its own column.
                    (line == last_head).then(|| cells.get(column)).flatten()
                });
                let rows = self.rows.iter().filter_map(|cells| cells.get(column));
                let rows = rows.map(|cell| cell.shown().width());
                heads.map(|cell| cell.width()).chain(rows).max().unwrap_or(0)
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
                line_of(f, cells.iter().map(|cell| cell[..].into()), &widths, self.of_words)?;
            }
        }
        if !self.heads.is_empty() {
            writeln!(f, "{}", "─".repeat(widths.iter().map(|w| w + 2).sum::<usize>().saturating_sub(2)))?;
        }
        let mut rows = self.rows.iter();
        rows.try_for_each(|cells| line_of(f, cells.iter().map(Cell::shown), &widths, self.of_words))
    }
}

/// A text in LaTeX: characters that it would read as commands are escaped.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            '\\' => out += "\\textbackslash{}",
            '~' => out += "\\textasciitilde{}",
            '^' => out += "\\textasciicircum{}",
            '<' | '>' => out.extend(['$', c, '$']),
            _ => out.push(c),
        }
    }
    out
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

fn line_of<'a>(
    f: &mut fmt::Formatter<'_>,
    cells: impl Iterator<Item = Cow<'a, str>>,
    widths: &[usize],
    of_words: bool,
) -> fmt::Result {
    let part = |(column, (cell, width)): (usize, (Cow<'_, str>, &usize))| {
        if column == 0 || of_words {
            left(&cell, *width)
        } else {
            " ".repeat(width.saturating_sub(cell.width())) + &cell
        }
    };
    let parts: Vec<String> = cells.zip(widths).enumerate().map(part).collect();
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
    fn papers_get_booktabs() {
        let mut table = Table::new();
        table.head(["", "en-de", "en-de"]);
        table.head(["metric", "acc", "p < 5%"]);
        let best = Cell { rank: Some(1), is_best: true, note: " n=3".into(), ..Cell::from("0.894") };
        table.row([Cell::from("a_b{c}~"), best, "-".into()]);
        table.row(["ZengHui-MT", "-0.5 to +1", "0"]);
        insta::assert_snapshot!(table.latex(&["seed 0".to_owned()]), @r"
        % \usepackage{booktabs}
        % seed 0
        \begin{tabular}{lrr}
        \toprule
         & \multicolumn{2}{c}{en-de} \\\cmidrule(lr){2-3}
        metric & acc & p $<$ 5\% \\
        \midrule
        a\_b\{c\}\textasciitilde{} & \textbf{0.894}$^{1}$ & -- \\
        ZengHui-MT & $-$0.5 to +1 & 0 \\
        \bottomrule
        \end{tabular}
        ");
        assert!(table.to_string().contains("0.894 (1) n=3"));
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
