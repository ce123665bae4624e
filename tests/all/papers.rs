//! docs/papers.md: the program accepts every command of the page, with its method, task set, statistics and
//! slices. With `TRIBUNAL_DATA`, commands on recorded scores and answers run.

use std::path::Path;

use tribunal::{
    cli,
    meta::{slices::By, statistic::Statistic, task::TaskSet},
};

use crate::fakes::{program, published_data};

/// The commands of the page, one for each alternative in braces.
fn commands() -> Vec<Vec<String>> {
    let page = include_str!("../../docs/papers.md");
    let spans = page.split('`').skip(1).step_by(2).filter_map(|span| span.strip_prefix("tribunal "));
    spans.map(words).flat_map(|command| alternatives(&command)).collect()
}

/// The words of a command line, with single quotes as in a shell.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (idx, part) in command.split('\'').enumerate() {
        for (n, word) in
            if idx % 2 == 1 { vec![part] } else { part.split(' ').collect() }.into_iter().enumerate()
        {
            if n > 0 {
                words.push(String::new());
            }
            words.last_mut().unwrap().push_str(word);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// `a{b,c}` is `ab` or `ac`. In `{lp}` there is nothing to choose.
fn alternatives(command: &[String]) -> Vec<Vec<String>> {
    let open = command.iter().enumerate().find_map(|(at, word)| {
        let (before, rest) = word.split_once('{')?;
        let (inner, after) = rest.split_once('}')?;
        inner.contains(',').then_some((at, before, inner, after))
    });
    let Some((at, before, inner, after)) = open else { return vec![command.to_vec()] };
    let choose = |one: &str| {
        let mut chosen = command.to_vec();
        chosen[at] = format!("{before}{one}{after}");
        alternatives(&chosen)
    };
    inner.split(',').flat_map(choose).collect()
}

/// The word after an option.
fn value<'a>(command: &'a [String], option: &str) -> Option<&'a str> {
    let at = command.iter().position(|word| word == option)?;
    command.get(at + 1).map(String::as_str)
}

/// Checks that the command line makes only once there are models and data.
fn check(command: &[String]) -> Result<(), String> {
    let pairs: Vec<String> = value(command, "-l").unwrap_or_default().split(',').map(str::to_owned).collect();
    if let Some(name) = value(command, "--task") {
        TaskSet::named(name, &pairs).map_err(|error| error.to_string())?;
    }
    for name in value(command, "--stat").into_iter().flat_map(|names| names.split(',')) {
        name.parse::<Statistic>().map_err(|error| error.to_string())?;
    }
    if let Some(name) = value(command, "--by") {
        By::named(name).map_err(|error| error.to_string())?;
    }
    match (command[0].as_str(), value(command, "--method")) {
        ("methods", _) => program(command).map(drop),
        (_, Some(method)) => program(&["methods", "show", method]).map(drop),
        _ => Ok(()),
    }
}

#[test]
fn every_command_is_accepted() {
    let commands = commands();
    assert!(commands.len() > 60, "{}", commands.len());
    for command in commands {
        let line = std::iter::once("tribunal".to_owned()).chain(command.iter().cloned());
        let parsed = cli::parse(line).map(drop).map_err(|error| error.to_string());
        if let Err(why) = parsed.and_then(|()| check(&command)) {
            panic!("tribunal {}: {why}", command.join(" "));
        }
    }
}

#[test]
fn commands_on_recorded_data_run() {
    let Some(data) = published_data() else { return };
    let folders = [("WMT23", "wmt23"), ("PROMPTCUE", "promptcue"), ("MENT", "ment")];
    let placed = |word: &String| {
        let path = |folder: &str| data.join(folder).display().to_string();
        folders.iter().fold(word.clone(), |word, (name, folder)| word.replace(name, &path(folder)))
    };
    let is_missing = |word: &String| {
        let path = Path::new(word.split_once('=').map_or(word.as_str(), |(_, path)| path));
        ["RUN", "DIR", "WMT22", "WMT24"].contains(&path.to_string_lossy().as_ref())
            || path.is_absolute() && !word.contains('{') && !path.exists()
    };
    let mut n_run = 0;
    for command in commands() {
        let command: Vec<String> = command.iter().map(placed).collect();
        let is_recorded = command[0] == "meta" || command[0] == "promptcue" && command[1] != "build";
        if !is_recorded || command.iter().any(is_missing) {
            continue;
        }
        let (text, _) =
            program(&command).unwrap_or_else(|why| panic!("tribunal {}: {why}", command.join(" ")));
        assert!(!text.is_empty());
        n_run += 1;
    }
    assert!(n_run >= 10, "{n_run}");
}
