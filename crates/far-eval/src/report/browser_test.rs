//! The page in a real browser, used as a person would use it; skipped with a note where there is
//! no Chromium.

use super::fixture::{both_ends, counterfactual, interval, replay, results};
use super::{Metric, ReportRun, TrainedPart, TrainingLog, report_page};
use crate::Interval;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `$CHROMIUM`, or the first of the usual names on the path.
fn chromium() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("CHROMIUM") {
        return Some(path.into());
    }
    let folders = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome"];
    std::env::split_paths(&folders)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|path| path.is_file())
}

/// A page that opens the report 390 pixels wide and passes on what its test found.
const PHONE: &str = r#"<!doctype html><body><script>
    addEventListener("message", ({ data }) => { document.body.dataset.selftest = data; });
</script><iframe src="index.html#selftest" width="390" height="844"></iframe>"#;

/// The document after `#selftest` has used it, and everything that was written to the console.
fn visit(chromium: &Path, page: &Path, profile: &Path) -> (String, Vec<String>) {
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}#selftest", page.display()))
        .output()
        .expect("the browser starts");
    let messages = String::from_utf8_lossy(&output.stderr);
    let messages = messages.lines().filter(|line| line.contains("CONSOLE"));
    let messages = messages.map(str::to_owned).collect();
    (String::from_utf8_lossy(&output.stdout).into_owned(), messages)
}

#[test]
fn the_page_works_from_a_disk_without_a_message_on_the_console() {
    let Some(chromium) = chromium() else {
        eprintln!("skipped: there is no Chromium to open the page with");
        return;
    };
    let hostile = "<img src=x onerror=alert(1)></script>";
    let mut lines = String::from("{\"step\":1,\"loss\":2}\n{\"step\":2,\"loss\":1}\n");
    for arm in ["far-multi", "far-meta"] {
        let line = r#"{"kind":"retriever","step":1,"arm":"ARM","weights":{"meta":1}}"#;
        lines += &(line.replace("ARM", arm) + "\n");
    }
    let training = TrainingLog::parse(&lines);
    let part = TrainedPart { name: "judge".into(), training: training.clone(), config: None };
    let first = ReportRun {
        name: "first".into(),
        results: results(),
        replays: vec![replay(), replay()],
        counterfactuals: vec![counterfactual()],
        both_ends: vec![both_ends(), both_ends()],
        training,
        config: Some("seed = 0".into()),
        parts: vec![part],
        command: Some("far eval first".into()),
    };
    let mut second = ReportRun { name: hostile.into(), ..first.clone() };
    for view in &mut second.both_ends {
        let answers = view.arms.remove("worldmem").expect("the fixture has it");
        view.arms.insert(hostile.into(), answers);
    }
    let values = second.results.arms.get_mut("far-multi").expect("the fixture has it");
    for id in ["psnr_tier_5", "state_surface", "state_container_small", "weight_audio_blocked"] {
        values.insert(id.into(), interval(0.5, 0.1));
    }
    let metric = Metric::of("weight_audio_blocked").noted("mean weight of the cue `audio`");
    second.results.descriptions.push(metric);
    for replay in &mut second.replays {
        // A retriever that finds nothing worth recalling.
        replay.arms.get_mut("far-multi").expect("the fixture has it")[1].recalled.clear();
        let steps = replay.arms.remove("worldmem").expect("the fixture has it");
        replay.arms.insert(hostile.into(), steps);
    }
    let values = second.results.arms.remove("worldmem").expect("the fixture has it");
    second.results.arms.insert(hostile.into(), values);
    // Walks too few to judge by, and intervals that say little.
    let few = Interval { mean: 1.18, lo: 0.15, hi: 9.36, n: 3 };
    let pairs = second.results.paired.get_mut("far-multi").expect("the fixture has it");
    pairs.get_mut("temporal").expect("the fixture has it").insert("psnr".into(), few);
    second.results.arms.get_mut("temporal").expect("there").insert("psnr".into(), few);
    // More rules than there are colors.
    let mut many = ReportRun { name: "many".into(), results: results(), ..ReportRun::default() };
    for place in 0..18 {
        let (name, psnr) = (format!("rule-{place:02}"), interval(10.0 + f64::from(place), 0.2));
        many.results.arms.insert(name.clone(), [("psnr".to_owned(), psnr)].into());
        many.results.curves.insert(name, many.results.curves["far-multi"].clone());
    }
    // A run of which there is nothing but a name must not stop the others.
    let empty = ReportRun { name: "empty".into(), ..ReportRun::default() };

    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("index.html");
    std::fs::write(&page, report_page(&[first, second, many, empty])).unwrap();
    // Windows have a least width, so that a telephone's is a frame in a page.
    let phone = folder.path().join("phone.html");
    std::fs::write(&phone, PHONE).unwrap();
    for page in [page, phone] {
        let (document, messages) = visit(&chromium, &page, &folder.path().join("profile"));
        let (_, result) = document.split_once("data-selftest=\"").expect("the test ran to its end");
        assert_eq!(result.split_once('"').unwrap().0, "passed", "{}", page.display());
        assert_eq!(messages, Vec::<String>::new());
        assert!(!document.contains("<img"), "a name became an element");
    }
}
