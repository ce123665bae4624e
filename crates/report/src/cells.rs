//! Cells of tables that people open in spreadsheets, which run text that begins with `=`, `+`, `-` or `@` as
//! a formula. It writes no tables.
//!
//! Source: OWASP, "CSV Injection".

/// Cells with an apostrophe before those that a spreadsheet would run, which keeps them text.
///
/// ```
/// use tribunal_report::quoted;
/// let cells = ["=SUM(A1)", "-0.5", "-", "- Ja."].map(String::from);
/// assert_eq!(quoted(cells.into()), ["'=SUM(A1)", "-0.5", "-", "'- Ja."]);
/// ```
pub fn quoted(cells: Vec<String>) -> Vec<String> {
    cells.into_iter().map(|cell| if is_formula(&cell) { format!("'{cell}") } else { cell }).collect()
}

/// Returns true if a spreadsheet would run a cell. Numbers are not formulas.
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
