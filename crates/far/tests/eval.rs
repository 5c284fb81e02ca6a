//! `far eval` as a user runs it, on runs of two steps.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn far(arguments: &[&str], paths: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_far")).args(arguments).args(paths).output().unwrap()
}

fn succeed(output: Output) -> Vec<u8> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Ten small walks in a folder below this one.
fn record(folder: &Path) -> PathBuf {
    let data = folder.join("village");
    let record = ["world", "record", "--world", "village", "--episodes", "10", "--size", "32"];
    succeed(far(&[&record[..], &["--out"]].concat(), &[&data]));
    data
}

/// Trains an arm for two steps on a tiny world model, with more arguments.
fn train(data: &Path, out: &Path, arm: &str, more: &[&str]) {
    succeed(try_to_train(data, out, arm, more));
}

fn try_to_train(data: &Path, out: &Path, arm: &str, more: &[&str]) -> Output {
    let arm = format!("arm.id={arm}");
    let settings = [
        arm.as_str(),
        "training.steps=2",
        "training.evaluate_every=0",
        "world_model.depth=2",
        "world_model.width=16",
        "world_model.heads=2",
        "evaluation.clips=2",
        "evaluation.questions=1",
        "evaluation.utility_pool=4",
        "evaluation.most_steps=3",
        "evaluation.sampler.steps=2",
    ];
    let mut arguments = vec!["train", "--config", "quick"];
    settings.iter().for_each(|setting| arguments.extend(["--set", *setting]));
    arguments.extend(more);
    arguments.extend(["--data", data.to_str().unwrap(), "--out"]);
    far(&arguments, &[out])
}

#[test]
fn runs_are_judged_with_rules_and_controls_and_again_alike() {
    let folder = tempfile::tempdir().unwrap();
    let data = record(folder.path());
    let [meta, temporal] = ["far-meta", "temporal"].map(|arm| {
        let run = folder.path().join(arm);
        train(&data, &run, arm, &[]);
        run
    });

    let judge = || succeed(far(&["eval", "--json", "--rule", "nearest-pose"], &[&meta]));
    let first = judge();
    let results: Value = serde_json::from_slice(&first).unwrap();
    let arms: Vec<&String> = results["arms"].as_object().unwrap().keys().collect();
    assert_eq!(arms, ["copy", "far-meta", "nearest-pose", "none", "oracle", "tokenizer"]);
    assert_eq!((&results["judge"], &results["clips"]), (&"common".into(), &2.into()));
    for metric in ["psnr", "psnr_raw", "ssim", "one_step_psnr"] {
        assert!(results["arms"]["far-meta"][metric]["mean"].is_number(), "{metric}");
        let paired = &results["paired"]["far-meta"]["nearest-pose"][metric];
        assert!(paired["lo"].is_number(), "{metric}");
    }
    // Three of the return's frames never arrive.
    assert!(results["arms"]["far-meta"]["psnr_closure"].is_null());
    let written: Value =
        serde_json::from_slice(&std::fs::read(meta.join("results.json")).unwrap()).unwrap();
    assert_eq!(written["arms"], results["arms"]);
    assert_eq!(std::fs::read_dir(meta.join("replays")).unwrap().count(), 2);
    assert_eq!(first, judge(), "the same run gives the same results");
    succeed(far(&["report"], &[&meta]));

    let table = succeed(far(&["eval", "--steps", "0"], &[&meta, &temporal]));
    let table = String::from_utf8(table).unwrap();
    assert!(table.contains("each run's own world model"), "{table}");
    assert!(table.contains("far-meta") && table.contains("temporal"), "{table}");
    // Nothing of the evaluation before stands beside these results.
    assert_eq!(std::fs::read_dir(meta.join("replays")).unwrap().count(), 0);
    let scored = |arm: &str| meta.join(format!("scores/{arm}.json")).exists();
    assert!(scored("temporal") && !scored("nearest-pose"));
}

#[test]
fn a_folder_without_a_run_is_named_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let output = far(&["eval"], &[folder.path()]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("there is no run in") && message.contains("hint: "), "{message}");
}

#[test]
fn retrievers_that_learned_beside_each_other_are_judged_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let (data, run) = (record(folder.path()), folder.path().join("run"));
    let beside = "chunked:arm.id=far-meta,retriever.chunk_size=7";
    train(&data, &run, "far-meta", &["--set", "retriever.interval=1", "--beside", beside]);
    let log = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    assert!(log.contains("\"arm\":\"far-meta\"") && log.contains("\"arm\":\"chunked\""), "{log}");
    let file = run.join("retrievers/chunked.safetensors");
    assert_eq!(far_memory::Retriever::load(&file).unwrap().config().chunk_size, 7);

    let asked = |text: &str| {
        let words = ["eval", "--json", "--no-rules", "--steps", "2", "--retriever", text];
        far(&words, &[&run])
    };
    let named = |name: &str| format!("{name}={}", file.display());
    let results: Value = serde_json::from_slice(&succeed(asked(&named("chunked")))).unwrap();
    assert!(results["paired"]["far-meta"]["chunked"]["psnr"]["mean"].is_number(), "{results}");
    // Its scores say what the file is, not what the run's own arm was trained with.
    let settings = |arm: &str| {
        let text = std::fs::read_to_string(run.join(format!("scores/{arm}.json"))).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["settings"].as_object().unwrap().clone()
    };
    let (own, file_settings) = (settings("far-meta"), settings("chunked"));
    assert!(own.contains_key("arm.id") && own.contains_key("retriever.interval"), "{own:?}");
    let of_the_arm = |key: &String| key.starts_with("arm.") || key.starts_with("retriever.");
    assert!(!file_settings.keys().any(of_the_arm), "{file_settings:?}");
    let described = file_settings["--retriever"].as_str().unwrap();
    assert!(described.contains("\"chunk_size\":7"), "{described}");
    assert_eq!(file_settings["world_model.width"], own["world_model.width"]);

    // What the run's own arm recalls by stands beside it under another name: the two are equal.
    let own = run.join("retrievers/far-meta.safetensors");
    let results = succeed(asked(&format!("own={}", own.display())));
    let results: Value = serde_json::from_slice(&results).unwrap();
    assert_eq!(results["arms"]["own"]["psnr"], results["arms"]["far-meta"]["psnr"]);

    for (text, reason) in [
        (named("far-meta"), "two arms are called `far-meta`"),
        ("chunked".to_owned(), "`chunked` is not NAME=FILE"),
        (named("../results"), "is not NAME=FILE with a plain name"),
        ("gone=nowhere.safetensors".to_owned(), "nowhere.safetensors"),
    ] {
        let output = asked(&text);
        assert_eq!(output.status.code(), Some(2));
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains(reason), "{message}");
    }
}

#[test]
fn a_companion_with_a_cue_that_the_run_lacks_is_judged_by_the_run_s_encoder() {
    let folder = tempfile::tempdir().unwrap();
    let (data, run) = (record(folder.path()), folder.path().join("run"));
    let small = [
        "retriever.interval=1",
        "encoder={ depth = 1, width = 16, heads = 2, key = 8 }",
        "encoder.pretraining={ steps = 2, batch = 4 }",
    ];
    let small = small.map(|set| ["--set", set]).concat();
    train(&data, &run, "far-meta", &[&small[..], &["--beside", "v:arm.id=far-vision"]].concat());
    let file = format!("v={}", run.join("retrievers/v.safetensors").display());
    let judge = |run: &Path| {
        far(&["eval", "--json", "--no-rules", "--steps", "0", "--retriever", &file], &[run])
    };
    let results: Value = serde_json::from_slice(&succeed(judge(&run))).unwrap();
    assert!(results["arms"]["v"]["one_step_psnr"]["mean"].is_number(), "{results}");

    // A run that was prepared from it has the encoder too; another one has none.
    let [prepared, other] = ["prepared", "other"].map(|name| folder.path().join(name));
    let from = ["--prepared", run.to_str().unwrap()];
    train(&data, &prepared, "far-meta", &[&small[..], &from].concat());
    succeed(judge(&prepared));
    train(&data, &other, "far-meta", &small);
    let output = judge(&other);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && message.contains("no run here has an encoder"),
        "{message}"
    );
    assert!(message.contains("judge it with the run that it was trained in"), "{message}");
}

#[test]
fn a_run_goes_on_with_the_companions_it_began_with() {
    let folder = tempfile::tempdir().unwrap();
    let (data, run) = (record(folder.path()), folder.path().join("run"));
    let go_on = |beside: &[&str]| {
        let more = [&["--set", "training.steps=3"], beside].concat();
        try_to_train(&data, &run, "far-meta", &more)
    };
    let [eight, four] =
        ["8", "4"].map(|size| format!("p:arm.id=far-meta,retriever.chunk_size={size}"));
    train(&data, &run, "far-meta", &["--beside", &eight]);
    for (beside, given) in [
        (&["--beside", four.as_str()][..], "retriever.chunk_size=4"),
        (&["--beside", &eight, "--beside", "q:arm.id=far-meta"], "--beside q"),
        (&[], "not without --beside"),
    ] {
        let output = go_on(beside);
        let message = String::from_utf8_lossy(&output.stderr);
        let trained = "it was trained with --beside p:retriever.chunk_size=8";
        assert!(!output.status.success() && message.contains(trained), "{message}");
        assert!(
            message.contains(given) && message.contains("hint: give every --beside"),
            "{message}"
        );
    }
    succeed(go_on(&["--beside", &eight]));
}

#[test]
fn a_companion_that_cannot_learn_is_refused_before_the_run_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let (data, run) = (record(folder.path()), folder.path().join("run"));
    train(&data, &run, "far-meta", &[]);
    let checkpoint = run.join("checkpoints/step-000000002.safetensors");
    let retriever = run.join("retrievers/far-meta.safetensors");
    for (beside, reason) in [
        ("nearest-pose", "`nearest-pose` has no retriever that learns"),
        ("frozen:arm.id=far-vision,arm.adapter=identity", "`frozen` has no retriever that learns"),
        ("far-meta:retriever.chunk_size=7", "two arms are called `far-meta`"),
        ("deep:arm.id=far-meta,world_model.depth=3", "`deep` sets `world_model.depth`"),
        ("world_model:arm.id=far-meta", "`world_model` is the world model's name"),
        ("often:arm.id=far-meta,retriever.interval=7", "`often` sets `retriever.interval`"),
        ("seeded:arm.id=far-meta,training.seed=7", "`seeded` sets `training.seed`"),
        ("heard:arm.id=far-multi,arm.also=[\"audio\"]", "audio"),
    ] {
        for check in [&["--fresh"][..], &["--check"]] {
            let output =
                try_to_train(&data, &run, "far-meta", &[&["--beside", beside], check].concat());
            let message = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && message.contains(reason), "{beside}: {message}");
            assert!(checkpoint.exists() && retriever.exists(), "{beside}");
        }
    }

    train(&data, &run, "temporal", &["--fresh"]);
    assert!(!retriever.exists(), "what was made of the run before is gone with it");
}
