//! Commands that the pages of the project print must be understood, their settings included. Tests only.

use crate::Arguments;
use clap::{CommandFactory, Parser};
use far_train::TrainConfig;
use std::path::{Path, PathBuf};

/// What may stand before the words of a command.
const PROGRAMS: [&str; 2] = ["far ", "cargo run --release -- "];

/// All pages that somebody follows. A notebook holds what was run at the time.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["", "docs", "docs/results", "benches", "python"];
    let mut found: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(root.join(folder)).expect("a folder"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    found.sort();
    found
}

/// The commands of the blocks of a page that are none of another language, one per line as a shell would
/// see them.
fn commands(page: &str) -> Vec<String> {
    let (mut commands, mut variables, mut shell) = (Vec::new(), Vec::new(), None);
    let mut begun = String::new();
    for line in page.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            shell = match shell {
                None => Some(["", "sh", "bash"].contains(&language)),
                Some(_) => None,
            };
            continue;
        }
        if shell != Some(true) {
            continue;
        }
        let line = line.split(" #").next().unwrap_or_default().trim();
        if let Some(start) = line.strip_suffix('\\') {
            begun += start;
            continue;
        }
        let mut whole = std::mem::take(&mut begun) + line;
        if let Some((name, value)) = whole.split_once("=\"")
            && name.chars().all(|letter| letter.is_ascii_uppercase())
        {
            variables.push((format!("${name}"), value.trim_end_matches('"').to_owned()));
            continue;
        }
        // The first turn of a loop stands for all.
        if let ["for", name, "in", value, ..] = whole.split_whitespace().collect::<Vec<_>>()[..] {
            variables.push((format!("${name}"), value.trim_end_matches(';').to_owned()));
        }
        for (name, value) in &variables {
            whole = whole.replace(name, value);
        }
        let parts = whole.split("&&").flat_map(|part| part.split("; "));
        let parts = parts.map(|part| part.trim().trim_start_matches("do ").to_owned());
        commands.extend(parts.filter(|part| PROGRAMS.iter().any(|name| part.starts_with(name))));
    }
    commands
}

/// The words of a command, as a shell splits them; what follows `>`, `|` or `&` is left out.
fn words(command: &str) -> Vec<String> {
    let name = PROGRAMS.iter().find(|name| command.starts_with(**name)).expect("a command");
    let (mut words, mut word, mut quote) = (vec!["far".to_owned()], String::new(), None);
    for letter in command[name.len()..].chars().chain([' ']) {
        match (letter, quote) {
            ('>' | '|' | '&', None) => break,
            ('\'' | '"', None) => quote = Some(letter),
            (_, Some(open)) if letter == open => quote = None,
            (' ', None) if word.is_empty() => {}
            (' ', None) => words.push(std::mem::take(&mut word)),
            _ => word.push(letter),
        }
    }
    words
}

/// What is wrong with the configuration that a command names, if it names one.
fn wrong_settings(words: &[String]) -> Option<String> {
    let after = |name: &'static str| {
        words.iter().zip(&words[1..]).filter(move |(word, _)| *word == name).map(|(_, value)| value)
    };
    let config = after("--config").next()?;
    let sets: Vec<&str> = after("--set").map(String::as_str).collect();
    // A file of the reader's own.
    if config.ends_with(".toml") {
        return None;
    }
    TrainConfig::resolve(config, &sets).err().map(|error| error.to_string())
}

/// What is wrong with a command, if something is.
fn problem(command: &str) -> Option<String> {
    let words = words(command);
    match Arguments::try_parse_from(&words) {
        Err(error) => Some(error.to_string()),
        Ok(_) => wrong_settings(&words),
    }
}

#[test]
fn every_printed_command_is_understood() {
    let (mut wrong, mut found) = (Vec::new(), 0);
    for path in pages() {
        let page = std::fs::read_to_string(&path).expect("a page");
        // Others have the reader's own words in them.
        let whole = |command: &String| !command.contains('…') && !command.contains(" FORMAT ");
        for command in commands(&page).into_iter().filter(whole) {
            found += 1;
            let problem = problem(&command);
            wrong
                .extend(problem.map(|problem| format!("{}: {command}\n{problem}", path.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(found > 60, "only {found} commands were found");
}

#[test]
fn every_example_of_a_help_text_is_understood() {
    let (mut found, mut verbs) = (0, vec![Arguments::command()]);
    while let Some(verb) = verbs.pop() {
        verbs.extend(verb.get_subcommands().cloned());
        let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in help.lines() {
            let command = line.split_once(": ").map_or(line, |(_, command)| command).trim();
            if command.starts_with(PROGRAMS[0]) && !command.contains('…') {
                found += 1;
                let problem = problem(command);
                assert!(problem.is_none(), "{command}\n{}", problem.unwrap_or_default());
            }
        }
    }
    assert!(found > 15, "only {found} examples were found");
}

#[test]
fn commands_are_read_as_a_shell_reads_them() {
    let page = "```sh\nV=\"--config quick\"\nfar train $V --set a=1 \\\n  --out x   # now\nfor p in a b; do far bench $p \
                \"two words\" > file; done\n```\n```rust\nfar nothing\n```\nfar nothing\n";
    let found = commands(page);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(words(&found[0])[1..], ["train", "--config", "quick", "--set", "a=1", "--out", "x"]);
    assert_eq!(words(&found[1])[1..], ["bench", "a", "two words"]);
}
