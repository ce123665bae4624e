//! Checks that a folder has all calls of its verdicts: every record has the number of its unit's calls. It
//! reads no answer.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{
    Error,
    calls::{self, CallCost},
    folder::json_lines,
    journal::{self, JOURNAL},
};

/// Calls of a record.
#[derive(Deserialize)]
struct Told {
    system: String,
    doc: String,
    seg: Option<usize>,
    n_calls: usize,
}

/// Number of questions about a unit.
#[derive(Default)]
struct Count {
    told: usize,
    there: usize,
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
    let mut told = 0;
    journal::each_json(&dir.join(JOURNAL), |json: Told| {
        told += json.n_calls;
        let place = place(&json.system, &json.doc, json.seg);
        units.entry(place).or_default().told += json.n_calls;
        Ok(())
    })?;
    let (mut there, mut shared) = (0, 0);
    calls::each_place(dir, |call| {
        if call.error.is_some() {
            return;
        }
        there += 1;
        match units.get_mut(&place(&call.system, &call.doc, call.seg)) {
            Some(unit) => unit.there += 1,
            None => shared += usize::from(call.seg.is_none()),
        }
    })?;
    let own = units.values().map(|unit| unit.there.min(unit.told)).sum();
    let there = if shared == 0 { own } else { there };
    if there >= told { Ok(()) } else { Err(Error::CallsMissing { dir: dir.into(), there, told }) }
}

/// Units with a verdict in a folder.
pub struct JudgedUnits(HashSet<u64>);

impl JudgedUnits {
    /// Reads the journal of a folder.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`].
    pub fn of(dir: &Path) -> Result<Self, Error> {
        let mut places = HashSet::new();
        journal::each_json(&dir.join(JOURNAL), |json: Told| {
            places.extend([json.seg, None].map(|seg| place(&json.system, &json.doc, seg)));
            Ok(())
        })?;
        Ok(Self(places))
    }

    /// Returns true if there is a verdict on the unit of a call, or on a part of its document for a call
    /// about a group.
    #[must_use]
    pub fn has(&self, call: &CallCost) -> bool {
        self.0.contains(&place(&call.system, &call.doc, call.seg))
    }
}

/// A number for what a question was about.
fn place(system: &str, doc: &str, seg: Option<usize>) -> u64 {
    let digest = Sha256::digest(json_lines(&[(system, doc, seg)]));
    digest[..8].iter().fold(0, |id, &byte| id << 8 | u64::from(byte))
}
