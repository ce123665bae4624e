//! Groups of segments that are judged together, the order of their verdicts, and their distribution over
//! shards. Groups depend on the input and the seed alone, never on a model or a clock.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    hash::Hash,
    str::FromStr,
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    draw::{languages, shuffle},
    error::Error,
    folder::json_lines,
    judges::{Grouping, Judge, Unit},
    record::UnitKey,
    segment::{Segment, Segments},
    selection::Selection,
};

/// Documents in one group of [`Grouping::FiveDocuments`].
const DOCS_IN_GROUP: usize = 5;

/// Roughly the tokens of a prompt around a segment, which even a short segment costs.
const TOKENS_AROUND: usize = 64;

/// Segments that are judged together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Positions in the input, in order.
    pub members: Arc<[usize]>,
    /// The members that get a verdict, by their place in `members`; the others are context.
    pub judged: Vec<usize>,
    /// One of several groups of the same members, each of which wants another one of them ([`each_apart`]).
    pub is_apart: bool,
}

/// Splits an input into groups, in the order of the input. The groups are the same whatever is selected, but
/// those in which nothing is selected are left out.
pub fn groups<S: Segments + ?Sized>(
    segments: &S,
    selection: &Selection,
    grouping: Grouping,
    seed: u64,
) -> Vec<Group> {
    let all = match grouping {
        Grouping::Segment => (0..segments.n_segments()).map(|i| vec![i]).collect(),
        Grouping::Document => documents(segments),
        Grouping::FiveDocuments => five_documents(segments, seed),
        Grouping::Source => sources(segments),
    };
    let group = |members: Vec<usize>| {
        let positions = (0..members.len()).filter(|&at| selection.wants(members[at])).collect();
        Group { members: members.into(), judged: positions, is_apart: false }
    };
    all.into_iter().map(group).filter(|group| !group.judged.is_empty()).collect()
}

/// Makes each segment that gets a verdict a group of its own, with the same context, where the judge asks
/// about each by itself ([`Judge::asks_apart`]): its verdict is written as soon as it is complete.
pub fn each_apart(groups: Vec<Group>, judge: &Judge) -> Vec<Group> {
    if !judge.asks_apart {
        return groups;
    }
    let apart = |group: Group| {
        let is_apart = group.members.len() > 1;
        let one = move |at: usize| Group { members: group.members.clone(), judged: vec![at], is_apart };
        group.judged.into_iter().map(one).collect::<Vec<_>>()
    };
    groups.into_iter().flat_map(apart).collect()
}

/// The segments that get a verdict, alone or with others in one text, where these are selected.
pub fn judged<S: Segments + ?Sized>(
    segments: &S,
    selection: &Selection,
    judge: &Judge,
    seed: u64,
) -> Selection {
    match (selection, judge.unit) {
        (Selection::All, _) | (_, Unit::Segment) => selection.clone(),
        (Selection::Only(_), Unit::Group) => {
            let groups = groups(segments, selection, judge.grouping, seed);
            Selection::Only(groups.iter().flat_map(|group| group.members.iter().copied()).collect())
        }
    }
}

impl Group {
    /// The segments of the group.
    pub fn segments(&self, input: &[Segment]) -> Vec<Segment> {
        self.members.iter().map(|&i| input[i].clone()).collect()
    }

    /// The segments of the group with their texts.
    ///
    /// # Errors
    /// [`Error::Input`] when the texts cannot be read back.
    pub fn read<S: Segments + ?Sized>(&self, input: &S) -> Result<Vec<Segment>, Error> {
        self.members.iter().map(|&i| input.segment(i).map_err(Error::Input)).collect()
    }

    /// The units that get a verdict, in order: the wanted members, or the group as a whole as soon as one of
    /// them is wanted.
    pub fn units<S: Segments + ?Sized>(&self, input: &S, unit: Unit) -> Vec<UnitKey> {
        let members = self.members.iter().map(|&i| input.outline(i));
        match unit {
            Unit::Segment => {
                self.judged.iter().map(|&at| UnitKey::of_outline(&input.outline(self.members[at]))).collect()
            }
            Unit::Group => UnitKey::of_outlines(members, unit),
        }
    }

    /// A number made of what the group holds: the same in a run that has grown, and in every shard.
    pub fn id<S: Segments + ?Sized>(&self, input: &S) -> GroupId {
        let mut hash = Sha256::new();
        for &member in self.members.iter() {
            hash.update(json_lines(&[UnitKey::of_outline(&input.outline(member))]));
        }
        if self.is_apart {
            // No unit's line, so that no document has the same name.
            hash.update(format!("{:?}", self.judged));
        }
        let digest = hash.finalize();
        GroupId(digest[..8].iter().fold(0, |id, &byte| id << 8 | u64::from(byte)))
    }

    /// Returns true if every member gets a verdict.
    pub fn is_whole(&self) -> bool {
        self.judged.len() == self.members.len()
    }
}

/// Id of a group in its calls: 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(u64);

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl GroupId {
    /// Reads what calls name a group by; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain =
            text.len() == 16 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        u64::from_str_radix(text, 16).ok().filter(|_| is_plain).map(Self)
    }
}

/// The members of several groups.
type Members = Vec<Vec<usize>>;

/// Positions with the same key together, in the order of their first ones; one without a key is alone.
fn by_key<K: Eq + Hash>(keys: impl Iterator<Item = Option<K>>) -> Members {
    let mut groups: Members = Vec::new();
    let mut numbers: HashMap<K, usize> = HashMap::new();
    for (i, key) in keys.enumerate() {
        let number = key.map_or(groups.len(), |key| *numbers.entry(key).or_insert(groups.len()));
        if number == groups.len() {
            groups.push(Vec::new());
        }
        groups[number].push(i);
    }
    groups
}

fn documents<S: Segments + ?Sized>(segments: &S) -> Members {
    by_key((0..segments.n_segments()).map(|i| {
        let segment = segments.outline(i);
        (!segment.doc.is_empty()).then(|| (segment.system, languages(&segment), segment.doc))
    }))
}

/// Documents of one system and language pair in an order drawn by the seed, five by five. Systems with the
/// same number of documents draw the same order, so their groups can be compared.
fn five_documents<S: Segments + ?Sized>(segments: &S, seed: u64) -> Members {
    let documents = documents(segments);
    let of_system = by_key(documents.iter().map(|members| {
        let first = segments.outline(members[0]);
        Some((first.system, languages(&first)))
    }));
    let mut groups = Vec::new();
    for mut numbers in of_system {
        shuffle(&mut numbers, seed);
        let group =
            |five: &[usize]| five.iter().flat_map(|&number| documents[number].iter().copied()).collect();
        groups.extend(numbers.chunks(DOCS_IN_GROUP).map(group));
    }
    groups
}

fn sources<S: Segments + ?Sized>(segments: &S) -> Members {
    by_key((0..segments.n_segments()).map(|i| {
        let segment = segments.outline(i);
        Some((languages(&segment), segment.doc, segment.seg, segments.source_id(i)))
    }))
}

/// The position of the first translation of each segment's source.
pub fn first_of_source<S: Segments + ?Sized>(segments: &S) -> Vec<usize> {
    let mut first = vec![0; segments.n_segments()];
    for members in sources(segments) {
        for &member in &members {
            first[member] = members[0];
        }
    }
    first
}

/// One part of a run: `1/3` is the first of three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    /// From 1 to `count`.
    pub index: usize,
    pub count: usize,
}

/// The most parts of a run.
const MAX_SHARDS: usize = 1_000_000;

/// Error of parsing a shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a shard\nhint: write `I/N`, with I from 1 to N: `1/3`, `2/3`, `3/3`; N is at most \
     1000000"
)]
pub struct ShardError(String);

impl Shard {
    /// The whole run.
    pub const WHOLE: Self = Self { index: 1, count: 1 };

    /// The groups of this shard, in order. Groups are dealt, largest first, to the shard with the fewest
    /// estimated tokens so far, so shards differ by at most the largest group. Groups of the same members
    /// ([`each_apart`]) share their context, and stay together.
    pub fn choose<S: Segments + ?Sized>(self, segments: &S, groups: &[Group]) -> Vec<usize> {
        let is_next = |at: usize| at == 0 || !Arc::ptr_eq(&groups[at].members, &groups[at - 1].members);
        let begins: Vec<usize> = (0..groups.len()).filter(|&at| is_next(at)).collect();
        let costs: Vec<usize> = begins.iter().map(|&at| tokens_of_members(segments, &groups[at])).collect();
        let mut largest_first: Vec<usize> = (0..begins.len()).collect();
        largest_first.sort_by_key(|&i| (std::cmp::Reverse(costs[i]), i));
        // Shards beyond the number of groups get none.
        let mut loads: BTreeSet<(usize, usize)> =
            (0..self.count.min(begins.len())).map(|shard| (0, shard)).collect();
        let mut chosen = Vec::new();
        for i in largest_first {
            let Some((load, shard)) = loads.pop_first() else { break };
            loads.insert((load + costs[i], shard));
            if shard + 1 == self.index {
                chosen.extend(begins[i]..begins.get(i + 1).copied().unwrap_or(groups.len()));
            }
        }
        chosen.sort_unstable();
        chosen
    }
}

/// A quarter of the bytes, plus what surrounds each segment: good enough to balance shards, and the same on
/// every machine.
pub fn estimated_tokens<S: Segments + ?Sized>(segments: &S, group: &Group) -> usize {
    let shared_by = if group.is_apart { group.members.len() } else { 1 };
    tokens_of_members(segments, group).div_ceil(shared_by)
}

fn tokens_of_members<S: Segments + ?Sized>(segments: &S, group: &Group) -> usize {
    let of = |&i: &usize| segments.outline(i).n_bytes / 4 + TOKENS_AROUND;
    group.members.iter().map(of).sum()
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl TryFrom<String> for Shard {
    type Error = ShardError;

    fn try_from(text: String) -> Result<Self, ShardError> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> Self {
        shard.to_string()
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let wrong = || ShardError(text.into());
        let (index, count) = text.split_once('/').ok_or_else(wrong)?;
        let index: usize = index.parse().map_err(|_| wrong())?;
        let count: usize = count.parse().map_err(|_| wrong())?;
        if index == 0 || index > count || count > MAX_SHARDS {
            return Err(wrong());
        }
        Ok(Self { index, count })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        judges::{Settings, registry},
        segment::lang::parse_pair,
        units::in_verdict_order,
    };

    fn segment(system: &str, doc: &str, seg: usize) -> Segment {
        Segment {
            system: system.into(),
            doc: doc.into(),
            seg,
            ..Segment::new(parse_pair("en-de").unwrap(), &format!("source {seg}"), &"x".repeat(seg * 7 % 50))
        }
    }

    fn input() -> Vec<Segment> {
        let docs = ["d1", "d1", "d0", "", "", "d2", "d3", "d4", "d5", "d6"];
        let systems = ["b", "a"];
        systems.iter().flat_map(|s| docs.iter().enumerate().map(|(i, d)| segment(s, d, i))).collect()
    }

    fn all(segments: &[Segment], grouping: Grouping, seed: u64) -> Vec<Vec<usize>> {
        let groups = groups(segments, &Selection::All, grouping, seed).into_iter();
        groups.inspect(|group| assert!(group.is_whole())).map(|group| group.members.to_vec()).collect()
    }

    #[test]
    fn each_grouping() {
        let segments = input();
        assert_eq!(all(&segments, Grouping::Segment, 0).len(), 20);
        let docs = all(&segments, Grouping::Document, 0);
        assert_eq!(docs[..5], [vec![0, 1], vec![2], vec![3], vec![4], vec![5]]);
        assert_eq!(all(&segments, Grouping::Source, 0)[2], [2, 12]);
        let five = all(&segments, Grouping::FiveDocuments, 7);
        assert_eq!(five.len(), 4);
        let shift: Vec<usize> = five[0].iter().map(|i| i + 10).collect();
        assert_eq!(five[2], shift, "the second system draws the same documents");
        assert_ne!(five, all(&segments, Grouping::FiveDocuments, 8));
    }

    #[test]
    fn a_selection_keeps_groups_whole() {
        let segments = input();
        let selection = Selection::All.first(&segments, 1).unwrap();
        for grouping in [Grouping::Segment, Grouping::Document, Grouping::FiveDocuments, Grouping::Source] {
            let whole = all(&segments, grouping, 7);
            let some = groups(&segments, &selection, grouping, 7);
            assert!(some.iter().all(|group| whole.contains(&group.members.to_vec())), "{grouping:?}");
            let judged = |unit| some.iter().flat_map(|g| g.units(&segments, unit)).collect::<Vec<_>>();
            let keys = judged(Unit::Segment);
            let mut shown: Vec<(&str, Option<usize>)> =
                keys.iter().map(|k| (k.system.as_str(), k.seg)).collect();
            shown.sort_unstable();
            assert_eq!(shown, [("a", Some(0)), ("b", Some(0))], "{grouping:?}");
            assert_eq!(judged(Unit::Group).len(), some.len(), "a verdict on a group is on all of it");
            assert_eq!(in_verdict_order(&segments, &some, Unit::Segment).len(), 2);
        }
    }

    #[test]
    fn segments_that_are_judged_apart_have_their_documents_shards_and_names_of_their_own() {
        let segments = input();
        let selection = Selection::Only((0..20).filter(|i| i % 3 != 1).collect());
        let judge = registry::build("fsp:shots=0", &Settings::default(), &[]).unwrap();
        for grouping in [Grouping::Segment, Grouping::Document, Grouping::FiveDocuments] {
            let whole = groups(&segments, &selection, grouping, 7);
            let apart = each_apart(whole.clone(), judge.as_ref());
            let judged = |groups: &[Group]| {
                let of = |g: &Group| g.judged.iter().map(|&at| g.members[at]).collect::<Vec<_>>();
                groups.iter().flat_map(of).collect::<Vec<_>>()
            };
            assert_eq!(judged(&apart), judged(&whole), "{grouping:?}");
            assert!(apart.iter().all(|group| group.judged.len() == 1));
            let ids = |groups: &[Group]| groups.iter().map(|g| g.id(&segments)).collect::<BTreeSet<_>>();
            assert_eq!(ids(&apart).len(), apart.len(), "{grouping:?}");
            let same = ids(&apart).intersection(&ids(&whole)).count();
            assert_eq!(same, whole.iter().filter(|group| group.members.len() == 1).count());
            for (index, count) in [(1, 1), (1, 2), (2, 2), (3, 3), (9, 9)] {
                let shard = Shard { index, count };
                let of = |groups: &[Group]| {
                    let chosen = shard.choose(&segments[..], groups).into_iter();
                    judged(&chosen.map(|at| groups[at].clone()).collect::<Vec<_>>())
                };
                assert_eq!(of(&apart), of(&whole), "{grouping:?}, {shard}");
            }
        }
    }

    #[test]
    fn verdicts_stand_by_system_document_and_segment() {
        let segments = input();
        let groups = groups(&segments, &Selection::All, Grouping::Document, 0);
        let keys = in_verdict_order(&segments, &groups, Unit::Segment);
        let shown: Vec<String> =
            keys[..6].iter().map(|k| format!("{}/{}/{}", k.system, k.doc, k.seg.unwrap())).collect();
        assert_eq!(shown, ["a/d1/0", "a/d1/1", "a/d0/2", "a//3", "a//4", "a/d2/5"]);
    }

    #[test]
    fn shards_parse() {
        assert_eq!("2/3".parse(), Ok(Shard { index: 2, count: 3 }));
        for wrong in ["0/3", "4/3", "1", "a/b", "1/0", "-1/2"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn shards_split_the_groups_evenly(sizes in prop::collection::vec(0_usize..400, 1..60), count in 1_usize..6) {
            let segments: Vec<Segment> = sizes
                .iter()
                .enumerate()
                .map(|(i, &n)| Segment { source: "x".repeat(n), ..segment("a", "", i) })
                .collect();
            let groups = groups(&segments, &Selection::All, Grouping::Segment, 0);
            let mut all = Vec::new();
            let mut loads = Vec::new();
            for index in 1..=count {
                let chosen = Shard { index, count }.choose(&segments, &groups);
                loads.push(chosen.iter().map(|&g| estimated_tokens(&segments, &groups[g])).sum::<usize>());
                all.extend(chosen);
            }
            all.sort_unstable();
            prop_assert_eq!(all, (0..groups.len()).collect::<Vec<_>>());
            let largest = groups.iter().map(|g| estimated_tokens(&segments, g)).max().unwrap();
            prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= largest);
        }
    }
}
