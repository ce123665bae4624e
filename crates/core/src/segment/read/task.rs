//! The file of WMT's evaluation task since 2026, item by item: ids and the systems' translations. The
//! segments of a run are read by `table`; this is for files that are written about the same items.

use std::path::Path;

use super::{Error, Result, table};
use crate::segment::wmt::Id;

/// An item of the task: a source with the translations of several systems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskItem {
    /// From 1.
    pub line: usize,
    /// The id as written in the file.
    pub item_id: String,
    pub id: Id,
    pub source: String,
    pub reference: Option<String>,
    /// By system, in the order of their names.
    pub translations: Vec<(String, String)>,
}

/// Hint that describes an item, for messages.
const HINT: &str = "\nhint: a line of the task's file has `item_id`, `src` and `hyps`; files of the general task and of earlier \
                    years have `doc_id`";

/// Goes through the items of a file.
///
/// # Errors
/// A file that cannot be read or is of another kind, and what `visit` returns.
pub fn task(path: &Path, mut visit: impl FnMut(TaskItem) -> Result<()>) -> Result<()> {
    table::jsonl(path, &mut |row| {
        let line = row.line;
        let row = table::In { path, row: &row };
        let missing = |field| Error::Missing { path: path.into(), line, field, hint: HINT.into() };
        let id = row.item()?.ok_or_else(|| {
            missing(if row.row.fields.contains_key("item_id") { "hyps" } else { "item_id" })
        })?;
        let item_id = row.required(&["item_id"])?;
        let source = row.required(&["src"])?;
        let reference = row.reference()?.map(|(text, _)| text);
        visit(TaskItem { line, item_id, id, source, reference, translations: row.translations("")? })
    })
}

/// Returns true if a file's first line is an item of the task.
pub fn is_task(path: &Path) -> bool {
    let mut first = false;
    let stop = || Error::Nothing(path.into());
    let _ = task(path, |_| {
        first = true;
        Err(stop())
    });
    first
}

impl TaskItem {
    /// The language pair, as `en-de`.
    pub fn pair(&self) -> String {
        self.id.pair.as_ref().map_or_else(String::new, |(src, tgt)| format!("{src}-{tgt}"))
    }

    /// The number that a run gives the segment; an item whose id ends in no number stands alone.
    pub fn seg(&self) -> usize {
        self.id.seg.unwrap_or(0)
    }
}
