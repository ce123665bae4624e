//! Checks that a folder has all calls of its verdicts: every record has the number of its unit's calls. It
//! reads no answer.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use crate::{
    calls::{self, CallCost},
    error::Error,
    folder::hash,
    journal::{JOURNAL, UnitFields},
    lines::{Kind, Lines},
};

/// Number of questions about a unit: by its record, and in the file of calls.
#[derive(Default)]
struct Count {
    recorded: usize,
    found: usize,
}

/// Compares the calls of a folder with those that its records count.
///
/// Questions about a whole group count for each of its units in part, so that only their number can be
/// compared where there are any; elsewhere every unit must have its own.
///
/// # Errors
/// [`Error::CallsMissing`]; [`Error::Io`], [`Error::Damaged`].
pub fn check(dir: &Path) -> Result<(), Error> {
    let mut units: HashMap<u64, Count> = HashMap::new();
    let mut recorded = 0;
    for fields in Lines::<UnitFields>::open(&dir.join(JOURNAL), Kind::Journal)? {
        let UnitFields { system, doc, seg, n_calls, .. } = fields?;
        recorded += n_calls;
        units.entry(hash(&(system, doc, seg))).or_default().recorded += n_calls;
    }
    let (mut found, mut shared) = (0, 0);
    for call in calls::lines::<CallCost>(dir)? {
        let call = call?;
        if call.error.is_some() {
            continue;
        }
        found += 1;
        match units.get_mut(&hash(&(&call.system, &call.doc, call.seg))) {
            Some(unit) => unit.found += 1,
            None => shared += usize::from(call.seg.is_none()),
        }
    }
    let of_units = units.values().map(|unit| unit.found.min(unit.recorded)).sum();
    let found = if shared == 0 { of_units } else { found };
    if found >= recorded { Ok(()) } else { Err(Error::CallsMissing { dir: dir.into(), found, recorded }) }
}

/// Units with a verdict in a folder.
pub struct JudgedUnits(HashSet<u64>);

impl JudgedUnits {
    /// Reads the journal of a folder.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`].
    pub fn read(dir: &Path) -> Result<Self, Error> {
        let mut units = HashSet::new();
        for fields in Lines::<UnitFields>::open(&dir.join(JOURNAL), Kind::Journal)? {
            let UnitFields { system, doc, seg, .. } = fields?;
            units.extend([seg, None].map(|seg| hash(&(&system, &doc, seg))));
        }
        Ok(Self(units))
    }

    /// Returns true if there is a verdict on the unit of a call, or on a part of its document for a call
    /// about a group.
    pub fn has(&self, call: &CallCost) -> bool {
        self.0.contains(&hash(&(&call.system, &call.doc, call.seg)))
    }
}
