//! Files of one room that import each other in a circle: none of them can be read first.

use std::collections::{BTreeMap, BTreeSet};

use super::{Source, expect_none, is_room, sources};

type Graph = BTreeMap<String, BTreeSet<String>>;

#[test]
fn files_do_not_import_each_other_in_circles() {
    let sources = sources();
    let graph = graph(&sources.iter().filter(|source| !source.is_test()).collect::<Vec<_>>());
    assert!(graph.values().map(BTreeSet::len).sum::<usize>() > 300, "imports were found");
    expect_none("files in a circle of imports", circling(&graph));
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
    let graph = graph(&sources.iter().collect::<Vec<_>>());
    assert_eq!(circling(&graph), ["meta/a -> meta/b", "meta/b -> meta/c", "meta/c -> meta/a"]);
}

/// Each module with the modules that it imports.
pub fn graph(sources: &[&Source]) -> Graph {
    let modules: BTreeSet<String> = sources.iter().map(|source| module(source)).collect();
    sources.iter().map(|source| (module(source), imports(source, &modules))).collect()
}

fn module(source: &Source) -> String {
    source.path.trim_end_matches(".rs").to_owned()
}

/// The modules that a file names, but for those that it is inside of: a room's own types stand there.
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
        found.extend(named.filter(|name| *name != own && !own.starts_with(&format!("{name}/"))));
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
