//! Comparisons as text and as tables: of systems by one judge, and of judges on the same translations.

pub mod judges;
pub mod systems;

use crate::table::Table;

/// The rows of several tables in one, each with cells of its own in front; the head has `names` there.
fn joined<'a>(names: &[&str], tables: impl Iterator<Item = (Vec<&'a str>, Table)>) -> Table {
    let mut all = Table::new();
    for (idx, (first, table)) in tables.enumerate() {
        let mut rows = table.flat();
        let head = rows.next().unwrap_or_default();
        if idx == 0 {
            all.head(names.iter().map(|name| (*name).to_owned()).chain(head));
        }
        rows.for_each(|row| all.row(first.iter().map(|cell| (*cell).to_owned()).chain(row)));
    }
    all
}
