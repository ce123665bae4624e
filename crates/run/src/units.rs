//! The units of a run by number, with only a small record of each in memory.

use std::collections::{BTreeMap, HashMap};

use crate::{
    groups::Group,
    judges::Unit,
    record::UnitKey,
    segment::{Segments, corpus::Names},
};

/// A unit with its names by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct UnitNames {
    system: u32,
    src_lang: u32,
    tgt_lang: u32,
    doc: u32,
    seg: Option<usize>,
}

/// All units of a run, numbered in the order of `verdicts.jsonl`: system by name, its documents as they stand
/// in the input, segment.
#[derive(Debug, Default)]
pub struct Units {
    names: Names,
    places: Vec<UnitNames>,
    numbers: HashMap<UnitNames, u32>,
    /// The units of each group, in the order of its judge's verdicts.
    of_group: Vec<u32>,
    /// Offset of each group's units in `of_group`, and the end of the last one's.
    begins: Vec<u32>,
    /// By unit.
    group: Vec<u32>,
}

impl Units {
    /// Numbers the units of some groups.
    pub fn new<S: Segments + ?Sized>(segments: &S, groups: &[Group], unit: Unit) -> Self {
        let mut names = Names::default();
        let (mut found, mut begins): (Vec<UnitNames>, Vec<u32>) = (Vec::new(), vec![0]);
        let mut lines: Vec<usize> = Vec::new();
        for group in groups {
            let first = group.members.iter().copied().min().unwrap_or(0);
            for (i, key) in group.units(segments, unit).iter().enumerate() {
                found.push(UnitNames::new(key, |name| Some(names.enter(name))).unwrap_or_default());
                lines.push(if unit == Unit::Segment { group.members[group.judged[i]] } else { first });
            }
            begins.push(found.len() as u32);
        }
        let order = ordered(&found, &lines, &names);
        Self::numbered(names, &found, &order, begins)
    }

    /// Units that are given, in verdict order, each of a group of its own.
    pub fn listed(keys: impl IntoIterator<Item = UnitKey>) -> Self {
        let mut names = Names::default();
        let found: Vec<UnitNames> = (keys.into_iter())
            .map(|key| UnitNames::new(&key, |name| Some(names.enter(name))).unwrap_or_default())
            .collect();
        let n = found.len() as u32;
        Self::numbered(names, &found, &(0..n).collect::<Vec<_>>(), (0..=n).collect())
    }

    /// Numbers units, which stand group by group from the offsets `begins`, in this order.
    fn numbered(names: Names, found: &[UnitNames], order: &[u32], begins: Vec<u32>) -> Self {
        let mut of_group = vec![0; found.len()];
        for (number, &at) in order.iter().enumerate() {
            of_group[at as usize] = number as u32;
        }
        let places: Vec<UnitNames> = order.iter().map(|&at| found[at as usize]).collect();
        let numbers = places.iter().enumerate().map(|(number, place)| (*place, number as u32)).collect();
        let mut group = vec![0; found.len()];
        for (i, range) in begins.windows(2).enumerate() {
            for at in range[0]..range[1] {
                group[of_group[at as usize] as usize] = i as u32;
            }
        }
        Self { names, places, numbers, of_group, begins, group }
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The unit of this number.
    ///
    /// # Panics
    /// For a number that no unit has.
    pub fn key(&self, number: usize) -> UnitKey {
        let UnitNames { system, src_lang, tgt_lang, doc, seg } = self.places[number];
        let name = |number: u32| self.names.name(number).to_owned();
        UnitKey {
            system: name(system),
            src_lang: name(src_lang),
            tgt_lang: name(tgt_lang),
            doc: name(doc),
            seg,
        }
    }

    /// All units in verdict order.
    pub fn keys(&self) -> impl Iterator<Item = UnitKey> + '_ {
        (0..self.len()).map(|number| self.key(number))
    }

    /// The number of a unit; `None` for one that is not of the run.
    pub fn number(&self, key: &UnitKey) -> Option<usize> {
        let place = UnitNames::new(key, |name| self.names.number(name))?;
        self.numbers.get(&place).map(|&number| number as usize)
    }

    /// The numbers of a group's units.
    ///
    /// # Panics
    /// For a group that there is not.
    pub fn of_group(&self, group: usize) -> &[u32] {
        &self.of_group[self.begins[group] as usize..self.begins[group + 1] as usize]
    }

    pub fn n_groups(&self) -> usize {
        self.begins.len().saturating_sub(1)
    }

    /// The group of a unit.
    ///
    /// # Panics
    /// For a number that no unit has.
    pub fn group(&self, number: usize) -> usize {
        self.group[number] as usize
    }
}

/// The units of all groups in verdict order.
pub fn in_verdict_order<S: Segments + ?Sized>(segments: &S, groups: &[Group], unit: Unit) -> Vec<UnitKey> {
    Units::new(segments, groups, unit).keys().collect()
}

impl UnitNames {
    fn new(key: &UnitKey, mut number: impl FnMut(&str) -> Option<u32>) -> Option<Self> {
        Some(Self {
            system: number(&key.system)?,
            src_lang: number(&key.src_lang)?,
            tgt_lang: number(&key.tgt_lang)?,
            doc: number(&key.doc)?,
            seg: key.seg,
        })
    }

    /// The document that it is of.
    fn doc(self) -> (u32, u32, u32, u32) {
        (self.system, self.src_lang, self.tgt_lang, self.doc)
    }
}

/// The places in verdict order; `lines` are those of their first segments.
fn ordered(places: &[UnitNames], lines: &[usize], names: &Names) -> Vec<u32> {
    let mut first_line: HashMap<_, usize> = HashMap::new();
    for (place, &line) in places.iter().zip(lines) {
        first_line.entry(place.doc()).and_modify(|at| *at = line.min(*at)).or_insert(line);
    }
    let by_name: BTreeMap<&str, u32> =
        places.iter().map(|place| (names.name(place.system), place.system)).collect();
    let rank: HashMap<u32, usize> =
        by_name.values().enumerate().map(|(rank, &system)| (system, rank)).collect();
    let mut order: Vec<u32> = (0..places.len() as u32).collect();
    order.sort_by_key(|&at| {
        let place = &places[at as usize];
        (rank[&place.system], first_line[&place.doc()], place.seg)
    });
    order
}
