//! Two hundred kills of a process that appends and syncs.

use crate::numbered_record;
use far_memory::store::{LocalDisk, Store, StoreOptions, StoreReader, verify};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const FOLDER: &str = "FAR_MEMORY_KILL_FOLDER";

fn open(path: &Path) -> Store {
    let disk = LocalDisk::create(path).expect("a folder");
    let options = StoreOptions { seal_records: 48, frame_bytes: 500, ..StoreOptions::default() };
    Store::open_or_create_on(Arc::new(disk), &numbered_record::schema(), options).expect("a store")
}

/// Not a test: the process that the test below starts and kills.
#[test]
#[ignore = "runs until it is killed; started by the test that kills it"]
fn child_that_appends_until_it_is_killed() {
    let Some(path) = std::env::var_os(FOLDER) else { return };
    let mut store = open(Path::new(&path));
    // Written directly to the pipe, so that the output survives the kill.
    let say = |what: &str, number: usize| {
        let line = format!("{what} {number}\n");
        std::io::stdout()
            .write_all(line.as_bytes())
            .and_then(|()| std::io::stdout().flush())
            .expect("the parent listens");
    };
    say("safe", store.len());
    for batch in 1.. {
        let end = store.len() + batch % 7;
        say("handing-over", end);
        while store.len() < end {
            let next = store.len() as u64;
            numbered_record::append(&mut store, next).expect("appended");
        }
        say("safe", store.sync().expect("synced"));
    }
}

/// The last number printed for `what`.
fn last_said(output: &str, what: &str) -> Option<usize> {
    let whole_lines = output.rsplit_once('\n')?.0.lines();
    whole_lines.filter_map(|line| line.strip_prefix(what)?.trim().parse().ok()).next_back()
}

#[test]
fn two_hundred_kills_lose_no_synced_record_and_invent_none() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("store");
    let random = &mut fastrand::Rng::with_seed(7);
    let (mut safe, mut torn) = (0, 0);
    for kill in 0..200 {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "kill::child_that_appends_until_it_is_killed", "--ignored"])
            .arg("--nocapture")
            .env(FOLDER, &path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        std::thread::sleep(Duration::from_micros(random.u64(3_000..60_000)));
        if kill % 4 == 0
            && let Ok(mut reader) = StoreReader::open(&path)
        {
            let snapshot = reader.snapshot().expect("readable beside the writer");
            assert!(snapshot.len() >= safe, "a reader sees what was safe before");
            numbered_record::check(&snapshot);
        }
        child.kill().expect("killed");
        let output = child.wait_with_output().expect("gone");
        let output = String::from_utf8(output.stdout).expect("text");
        safe = last_said(&output, "safe").unwrap_or(safe);
        let handed_over = last_said(&output, "handing-over").unwrap_or(safe).max(safe);

        let store = open(&path);
        let found = store.len();
        assert!((safe..=handed_over).contains(&found), "{found} not in {safe}..={handed_over}");
        numbered_record::check(&store.snapshot());
        torn += usize::from(store.recovery().torn_bytes > 0);
        safe = found;
    }
    assert!(verify(&path, |_, _| ()).expect("a manifest").is_sound());
    assert!(safe > 0, "the children got to work");
    println!("200 kills, {safe} records, {torn} torn tails");
}
