use super::*;
use crate::Interval;

/// An arm that scores `base` plus something of the clip.
fn scores(arm: &str, seed: u64, base: f64) -> Scores {
    let clips = 8;
    let mut tally = Tally::new([arm].into_iter());
    for clip in 0..clips {
        let value = base + f64::from(clip as u32 % 3);
        let frames = [[Some(value), None, Some(0.5), None, None]; 4];
        tally.rollout(arm, clip, &frames, 4);
        tally.oracle_gain(clip, 2.0);
        tally.recall_gain(arm, clip, 1.0 + seed as f64 / 10.0);
    }
    let protocol = Protocol {
        seed,
        dataset: "village static".into(),
        corpus: "village".into(),
        episodes: (0..clips as u32).map(|episode| 3 * episode).collect(),
        judge: "own".into(),
        slots: 3,
        device: "cpu".into(),
    };
    Scores::new(arm, ArmDescription::of_name(arm), &tally, &protocol)
}

/// Two arms under three seeds, of which the learned one is ahead under all.
fn all() -> Vec<Scores> {
    let seeds = (0..3u64).flat_map(|seed| {
        let ahead = 0.5 + 0.1 * seed as f64;
        [scores("far-multi", seed, 16.0 + ahead), scores("worldmem", seed, 16.0)]
    });
    seeds.collect()
}

#[test]
fn seeds_are_merged_into_means_intervals_and_a_spread() {
    let results = merge(&all()).unwrap();
    assert_eq!((results.seeds.as_slice(), results.clips), (&[0, 1, 2][..], 8));
    let difference = results.paired["far-multi"]["worldmem"]["psnr"];
    assert!((difference.mean - 0.6).abs() < 1e-6);
    // All clips agree, so the width is that of the seeds.
    assert!(difference.lo >= 0.5 - 1e-6 && difference.hi <= 0.7 + 1e-6, "{difference:?}");
    assert!(difference.hi - difference.lo > 0.1);
    let spread = &results.by_seed["far-multi"]["psnr"];
    assert!((spread[2].unwrap() - spread[0].unwrap() - 0.2).abs() < 1e-6);
    assert!((results.arms["worldmem"]["recall_quality"].mean - 0.55).abs() < 1e-6);
    assert_eq!(results.curves["far-multi"]["psnr"].values.len(), 20);
    let text = crate::markdown("merged", &results);
    assert!(text.contains("seeds 0, 1 and 2") && text.contains("(3 of 3 seeds)"), "{text}");
    assert!(text.contains("**17.47** ±0.10 ["), "{text}");
    assert!(crate::summary(&results)[0].starts_with("Over 8 clips and 3 seeds"));
}

#[test]
fn one_seed_is_what_its_evaluation_found() {
    let one: Vec<Scores> = all().into_iter().filter(|scores| scores.protocol.seed == 1).collect();
    let results = merge(&one).unwrap();
    assert!(results.seeds.is_empty() && results.by_seed.is_empty());
    let values: Vec<f64> = (0..8).map(|clip| 16.0 + f64::from(clip % 3)).collect();
    assert_eq!(results.arms["worldmem"]["psnr"], Interval::of(&values, 1));
}

#[test]
fn what_does_not_belong_together_is_named() {
    let refused = |change: &dyn Fn(&mut Vec<Scores>)| {
        let mut scores = all();
        change(&mut scores);
        merge(&scores).unwrap_err().to_string()
    };
    let message = refused(&|scores| scores[3].protocol.episodes[7] = 99);
    assert!(message.contains("test walks: far-multi of seed 0 has 8 episodes (0, 3"), "{message}");
    let message = refused(&|scores| drop(scores.remove(3)));
    assert!(message.contains("seed 1 has no arm worldmem, another has"), "{message}");
    let message = refused(&|scores| scores[2].protocol.seed = 0);
    assert!(message.contains("far-multi stands twice under seed 0"), "{message}");
    let message = refused(&|scores| {
        scores[4].settings.insert("training.steps".into(), "7".into());
    });
    let expected = "far-multi: training.steps is the default under seed 0, 7 under seed 2";
    assert!(message.contains(expected), "{message}");
    let message = refused(&|scores| drop(scores[5].measured.values.remove("ssim")));
    assert!(message.contains("worldmem has no ssim under seed 2"), "{message}");
    let message = refused(&|scores| scores[1].protocol.slots = 11);
    assert!(message.contains("memories per recall"), "{message}");
    let message = refused(&|scores| scores[1].protocol.dataset = "other".into());
    assert!(message.contains("dataset: "), "{message}");
    assert!(merge(&[]).is_err());
}

#[test]
fn what_one_seed_did_not_measure_is_left_out() {
    let mut scores = all();
    let whole = merge(&scores).unwrap();
    assert!(keep_shared_metrics(&mut scores).is_empty());
    assert_eq!(merge(&scores).unwrap(), whole);
    scores[5].measured.values.remove("ssim");
    let lacking = BTreeMap::from([("ssim".to_owned(), BTreeSet::from([2]))]);
    assert_eq!(keep_shared_metrics(&mut scores), lacking);
    let merged = merge(&scores).unwrap();
    for (arm, metrics) in &merged.arms {
        assert!(!metrics.contains_key("ssim"), "{arm}");
        assert_eq!(metrics["psnr"], whole.arms[arm]["psnr"]);
    }
}

#[test]
fn files_come_back_and_are_found_in_folders_of_seeds() {
    let folder = tempfile::tempdir().unwrap();
    for each in all() {
        each.write(&folder.path().join(format!("seed-{}", each.protocol.seed))).unwrap();
    }
    let read = Scores::read_all(folder.path()).unwrap();
    assert_eq!(read, all());
    assert_eq!(Scores::read_all(&folder.path().join("seed-1/scores")).unwrap(), all()[2..4]);
    let path = folder.path().join("seed-0/scores/worldmem.json");
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes.len() < 6000, "{} bytes for 8 clips", bytes.len());
    for end in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        assert!(Scores::parse(&bytes[..end]).is_err(), "cut at {end}");
    }
    let text = String::from_utf8(bytes).unwrap();
    for (from, to) in [("\"version\":1", "\"version\":2"), ("[0,3,", "[3,3,"), ("[0,3,6,9", "[9")] {
        assert!(text.contains(from), "{text}");
        assert!(Scores::parse(text.replacen(from, to, 1).as_bytes()).is_err(), "{to}");
    }
    let missing = Scores::read(&folder.path().join("none.json")).unwrap_err().to_string();
    assert!(missing.contains("none.json"), "{missing}");
}
