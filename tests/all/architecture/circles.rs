//! Files of one room that import each other in a circle: none of them can be read first. Imports from a module
//! above are counted apart.

use std::collections::{BTreeMap, BTreeSet};

use super::{Source, expect_none, is_in, is_room, sources};

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Rooms with the most imports from modules that the importing file is inside of, mostly of types that several
/// files share. Limits are the counts reached; a change lowers them.
const MOST_FROM_ABOVE: &[(&str, usize)] = &[
    ("bench", 2),
    ("cli", 25),
    ("cpu", 6),
    ("cuda", 23),
    ("engine", 10),
    ("evidence", 2),
    ("files", 1),
    ("gguf", 2),
    ("jinja", 2),
    ("judges", 22),
    ("llm", 5),
    ("meta", 20),
    ("model", 40),
    ("mqm", 11),
    ("replication", 1),
    ("report", 22),
    ("run", 5),
    ("segment", 26),
    ("tune", 4),
];

/// Files that may import from above: each family of models fills in the types of its module, and `eval` has
/// only these.
const FROM_ABOVE: &[&str] = &[
    "model/families",
    "eval/forecast/pace",
    "eval/forecast/target",
    "eval/models/gpu_check",
    "eval/models/heads",
    "eval/recorded/check",
    "eval/values/variables",
];

#[test]
fn files_do_not_import_each_other_in_circles() {
    let graph = beside(&named_in_rooms());
    assert!(graph.values().map(BTreeSet::len).sum::<usize>() > 300, "imports were found");
    expect_none("files in a circle of imports", circling(&graph));
}

#[test]
fn imports_from_above_become_fewer() {
    let mut rooms: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for import in above(&named_in_rooms()).into_iter().filter(|import| !is_in(import, FROM_ABOVE)) {
        let room = import.split('/').next().unwrap_or_default().to_owned();
        rooms.entry(room).or_default().push(import);
    }
    let over = rooms.into_iter().filter_map(|(room, imports)| {
        let most = MOST_FROM_ABOVE.iter().find(|(name, _)| *name == room).map_or(0, |(_, most)| *most);
        println!("{:>3} of {most:>3}  {room}", imports.len());
        let listed = imports.join("\n    ");
        (imports.len() > most).then(|| format!("{room}: {}, {most} allowed\n    {listed}", imports.len()))
    });
    expect_none("imports from a module that the file is inside of", over);
}

/// The files of circles, each with those of its imports that lead back to it.
fn circling(graph: &Graph) -> Vec<String> {
    let mut found = Vec::new();
    for (module, imports) in graph {
        let back: Vec<&str> =
            imports.iter().filter(|next| reaches(graph, next, module)).map(String::as_str).collect();
        if !back.is_empty() {
            found.push(format!("{module} -> {}", back.join(", ")));
        }
    }
    found
}

#[test]
fn a_circle_is_found_through_use_trees_and_paths() {
    let source = |path: &str, text: &str| Source::new(path.into(), text.into());
    let sources = [
        source("meta.rs", "pub mod a;"),
        source("meta/a.rs", "use super::{Error, b::{self, Thing}};"),
        source("meta/b.rs", "fn f() { crate::meta::c::g() }"),
        source("meta/c.rs", "use super::super::meta::a::f;"),
        source("meta/d.rs", "use super::a;"),
    ];
    let named = named(sources.iter());
    let circles = circling(&beside(&named));
    assert_eq!(circles, ["meta/a -> meta/b", "meta/b -> meta/c", "meta/c -> meta/a"]);
    assert_eq!(above(&named), ["meta/a -> meta"]);
}

/// Each module of the rooms with the modules that it names, without tests.
fn named_in_rooms() -> Graph {
    named(sources().iter().filter(|source| !source.is_test()))
}

/// Each module with the modules that it names.
fn named<'a>(sources: impl Iterator<Item = &'a Source> + Clone) -> Graph {
    let modules: BTreeSet<String> = sources.clone().map(module).collect();
    sources.map(|source| (module(source), imports(source, &modules))).collect()
}

/// Each module with its imports, but for the modules that it is inside of: types of a room stand there.
fn beside(named: &Graph) -> Graph {
    let beside = |(module, imports): (&String, &BTreeSet<String>)| {
        let others = imports.iter().filter(|name| !is_inside(module, name)).cloned();
        (module.clone(), others.collect())
    };
    named.iter().map(beside).collect()
}

/// Imports from modules that the importing one is inside of.
fn above(named: &Graph) -> Vec<String> {
    let above = named.iter().flat_map(|(module, imports)| {
        let above = imports.iter().filter(|name| is_inside(module, name));
        above.map(move |name| format!("{module} -> {name}"))
    });
    above.collect()
}

fn is_inside(module: &str, other: &str) -> bool {
    module.strip_prefix(other).is_some_and(|path| path.starts_with('/'))
}

fn module(source: &Source) -> String {
    source.path.trim_end_matches(".rs").to_owned()
}

/// The modules that a file names.
fn imports(source: &Source, modules: &BTreeSet<String>) -> BTreeSet<String> {
    let own = module(source);
    let mut found = BTreeSet::new();
    for path in paths(&source.code) {
        let mut names: Vec<&str> = path.split("::").map(str::trim).collect();
        let mut place: Vec<&str> = own.split('/').collect();
        match names[0] {
            "crate" => {
                place.clear();
                let is_own = !source.root.is_empty() && names.get(1).is_some_and(|name| !is_room(name));
                place.extend(is_own.then_some(source.root));
            }
            "super" => {
                place.truncate(place.len() - names.iter().take_while(|name| **name == "super").count());
            }
            _ => {}
        }
        names.retain(|name| !["crate", "super", "self"].contains(name));
        place.extend(names);
        let named = (1..=place.len()).rev().map(|n| place[..n].join("/")).find(|name| modules.contains(name));
        // The root of a crate re-exports the crates below it.
        let named = named.filter(|name| name != source.root);
        found.extend(named.filter(|name| *name != own));
    }
    found
}

/// Every path of the code's `use` trees, and every other path that starts at `crate` or `super`.
fn paths(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let words = |from: &str| -> String {
        from.chars().take_while(|c| c.is_alphanumeric() || [':', '_'].contains(c)).collect()
    };
    for (at, _) in code.match_indices("use ") {
        if at == 0 || !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            let tree = code[at + 4..].split(';').next().unwrap_or_default();
            expand("", tree, &mut found);
        }
    }
    for root in ["crate::", "super::"] {
        let starts = code.match_indices(root).filter(|(at, _)| !code[..*at].ends_with("::"));
        found.extend(starts.map(|(at, _)| words(&code[at..])));
    }
    found
}

/// `a::b` and `a::c::d` of `a::{b, c::d}`.
fn expand(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let Some((head, group)) = tree.split_once('{') else {
        found.push(format!("{prefix}{}", tree.split(" as ").next().unwrap_or_default().trim()));
        return;
    };
    let prefix = format!("{prefix}{}", head.trim());
    let (mut depth, mut part) = (0, String::new());
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            expand(&prefix, &std::mem::take(&mut part), found);
        } else {
            part.push(c);
        }
    }
    if !part.trim().is_empty() {
        expand(&prefix, &part, found);
    }
}

fn reaches(graph: &Graph, from: &str, to: &str) -> bool {
    let (mut open, mut seen) = (vec![from], BTreeSet::new());
    while let Some(module) = open.pop() {
        for next in graph.get(module).into_iter().flatten() {
            if next == to {
                return true;
            }
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    false
}
