//! Configurations: presets, layers, mistakes, and the documentation of every setting.

use far_train::{Arm, PRESETS, TrainConfig, documented};
use std::collections::BTreeSet;

fn refusal(preset: &str, sets: &[&str]) -> String {
    TrainConfig::resolve(preset, sets).expect_err("a mistake").to_string()
}

/// Every key below a value, with absent ones.
fn keys(value: &serde_json::Value, prefix: &str, found: &mut BTreeSet<String>) {
    let serde_json::Value::Object(entries) = value else { return };
    for (name, value) in entries {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        if value.as_object().is_some_and(|inner| !inner.is_empty()) {
            keys(value, &key, found);
        } else {
            found.insert(key);
        }
    }
}

#[test]
fn every_preset_is_whole_and_survives_text() {
    for (name, _) in PRESETS {
        let config = TrainConfig::resolve(name, &[]).expect(name);
        for text in [config.to_toml(), config.to_commented_toml()] {
            assert_eq!(TrainConfig::from_toml(&text, name).expect(name), config, "{name}\n{text}");
        }
        assert!(config.warnings().is_empty(), "{name}: {:?}", config.warnings());
    }
}

#[test]
fn every_setting_is_documented_and_nothing_else() {
    // Between them these presets have every optional table.
    let mut known = BTreeSet::new();
    for (name, _) in PRESETS {
        let config = TrainConfig::resolve(name, &[]).expect(name);
        keys(&serde_json::to_value(config).expect("serializes"), "", &mut known);
    }
    // A cue that is a column is called by its name; what it may hold is documented for any. No preset reads
    // two frames of a memory.
    let none_has = ["cues.NAME.column=touch", "world_model.earlier_view=1.5"];
    let config = TrainConfig::resolve("quick", &none_has).expect("a cue and two frames");
    keys(&serde_json::to_value(config).expect("serializes"), "", &mut known);
    let tables: BTreeSet<String> =
        documented().iter().map(|setting| setting.table.clone()).collect();
    known.retain(|key| !tables.contains(key));
    let listed: BTreeSet<String> = documented().iter().map(|setting| setting.key()).collect();
    assert_eq!(known, listed);
    for setting in documented() {
        assert!(setting.comment.len() > 10, "{} has no comment", setting.key());
    }
}

#[test]
fn examples_of_optional_settings_are_accepted() {
    for setting in documented().iter().filter(|setting| setting.optional) {
        if ["data", "encoder", "world_model"].contains(&setting.table.as_str()) {
            let set = format!("{}={}", setting.key(), setting.value);
            TrainConfig::resolve("default", &[&set]).expect(&set);
        }
    }
    let tables = [
        r#"data.anchor={ kind = "event", probability = 0.3, labels = ["open"], horizon = 8 }"#,
        r#"training.change_mask={ source = "change", coefficient = 1, utility_coefficient = 1 }"#,
    ];
    TrainConfig::resolve("default", &tables).expect("whole tables");
}

#[test]
fn none_takes_an_optional_setting_out_of_a_preset() {
    let kitchen = TrainConfig::resolve("kitchen", &[]).expect("a preset");
    assert!(kitchen.world_model.seen_from_goal.is_some() && kitchen.data.anchor.is_some());
    let sets = ["world_model.seen_from_goal=none", "data.anchor=none", "encoder.path=none"];
    let plain = TrainConfig::resolve("kitchen", &sets).expect("optional settings");
    assert!(plain.world_model.seen_from_goal.is_none() && plain.data.anchor.is_none());
    let again = TrainConfig::resolve("kitchen", &[sets[0], "world_model.seen_from_goal=2.5"]);
    assert_eq!(again.expect("set again").world_model.seen_from_goal, Some(2.5));
    let rule = TrainConfig::resolve("kitchen", &["arm.id=none", "arm.also=[]"]).expect("an arm");
    assert_eq!(rule.arm.id, "none");
    let message = refusal("kitchen", &["training.steps=none"]);
    assert!(message.contains("training.steps"), "{message}");
}

#[test]
fn several_key_cues_are_possible() {
    let config = TrainConfig::resolve("paper-soundspaces", &[]).expect("known");
    let Arm::Far(arm) = config.arm.arm().expect("known") else { panic!("a learned arm") };
    assert_eq!((arm.metadata, arm.keys), (true, vec!["audio".to_owned()]));
    let sets = ["arm.also=[\"audio\", \"agent\"]"];
    let config = TrainConfig::resolve("paper-loopnav", &sets).expect("three key cues");
    assert_eq!(config.arm.arm().expect("known").key_cues(), ["vision", "audio", "agent"]);
}

#[test]
fn overlays_stack_and_words_need_no_quotes() {
    let sets = ["arm.id=worldmem", "arm.settings.view.radius=6", "training.learning_rate=1"];
    let config = TrainConfig::resolve("quick", &sets).expect("understood");
    let Arm::Rule(rule) = config.arm.arm().expect("known") else { panic!("a rule") };
    assert_eq!(rule.rule.id(), "worldmem");
    assert_eq!(config.training.learning_rate, 1.0);
    let sets = [sets[0], sets[1], "arm.id=temporal"];
    let config = TrainConfig::resolve("quick", &sets).expect("understood");
    assert!(config.arm.settings.is_empty(), "another rule does not inherit settings");
    let config = TrainConfig::resolve("quick", &["data.folder=../my/data-1"]).expect("a path");
    assert_eq!(config.data.folder.to_str(), Some("../my/data-1"));
    let sets = ["tokenizer.kind=precomputed:oasis", "compute.device=cuda:1"];
    TrainConfig::resolve("paper-loopnav", &sets).expect("a colon needs no quotes either");
}

#[test]
fn mistakes_are_named_in_one_line() {
    let cases: [(&[&str], &[&str]); 15] = [
        (&["training.step=3"], &["training.step`", "`training.steps`"]),
        (&["steps=3"], &["`steps`", "`training.steps`"]),
        (&["trainig.steps=3"], &["`training.steps`"]),
        (&["zebra.crossing=3"], &["zebra"]),
        (&["training.steps"], &["no `=`"]),
        (&["training.steps=[1"], &["not TOML"]),
        (&["training.steps=many"], &["training.steps", "many"]),
        (&["training.steps=-1"], &["training.steps", "-1"]),
        (&["training.steps=0"], &["training.steps", "at least 1"]),
        (&["arm.id=worldmemory"], &["arm.id", "worldmemory", "worldmem,"]),
        (&["arm.id=worldmem", "arm.settings.raduis=6"], &["arm.settings", "raduis"]),
        (&["data.goals_per_observation=3"], &["data.batch", "multiple"]),
        (&["arm.also=[\"vision\"]"], &["arm.also", "`vision`", "twice"]),
        (&["arm.also=[\"interaction\"]"], &["conditioning.interactions", "`interaction`"]),
        (&["retriever.metadata_layers=4"], &["retriever.metadata_layers", "4"]),
    ];
    for (sets, words) in cases {
        let message = refusal("quick", sets);
        assert!(!message.contains('\n'), "{message}");
        for word in words {
            assert!(message.contains(word), "{sets:?}: {message}");
        }
    }
    let message = refusal("quikc", &[]);
    assert!(message.contains("quikc") && message.contains("quick"), "{message}");
    let message = TrainConfig::from_toml("[training]\nsteps = \n", "mine.toml").unwrap_err();
    assert!(message.to_string().starts_with("mine.toml: line 2"), "{message}");
}

#[test]
fn a_starved_retriever_is_warned_about() {
    let config = TrainConfig::resolve("quick", &["retriever.interval=20"]).expect("allowed");
    assert!(config.warnings()[0].contains("30 updates"), "{:?}", config.warnings());
    let sets = ["retriever.interval=20", "arm.id=temporal"];
    let config = TrainConfig::resolve("quick", &sets).expect("allowed");
    assert!(config.warnings().is_empty(), "a rule does not learn");
}

#[test]
fn the_first_difference_is_named_in_the_order_of_the_file() {
    let one = TrainConfig::resolve("quick", &[]).expect("known");
    let sets = [
        "training.seed=1",
        "data.anchor={ kind = \"event\", probability = 0.3, labels = [\"open\"], horizon = 8 }",
    ];
    let two = TrainConfig::resolve("quick", &sets).expect("known");
    let (key, here, there) = one.first_difference(&two).expect("they differ");
    assert_eq!(
        (key.as_str(), here.as_str(), there.as_str()),
        ("data.anchor.kind", "not set", "\"event\"")
    );
    assert_eq!(one.first_difference(&one), None);
}

#[test]
fn cues_that_are_columns_have_names_of_their_own() {
    let sets = ["cues.touch.column=touch", "cues.wind.column=air", "cues.wind.scale=3"];
    let config = TrainConfig::resolve("quick", &sets).expect("two cues");
    assert_eq!((config.cues["touch"].scale, config.cues["wind"].scale), (1.0, 3.0));
    for text in [config.to_toml(), config.to_commented_toml()] {
        assert_eq!(TrainConfig::from_toml(&text, "here").expect("it reads"), config, "{text}");
    }
    let other = TrainConfig::resolve("quick", &[sets[0], sets[1]]).expect("two cues");
    let (key, here, there) = config.first_difference(&other).expect("they differ");
    assert_eq!((key.as_str(), here.as_str(), there.as_str()), ("cues.wind.scale", "3.0", "1.0"));
    let plain = TrainConfig::resolve("quick", &[]).expect("known");
    assert_eq!(plain.first_difference(&other).expect("they differ").0, "cues.touch.column");
    for (set, words) in [
        ("cues.touch.colum=touch", "cues.touch.colum"),
        ("cues.touch.scale=2", "column"),
        ("cues.touch={ column = \"\" }", "names no column"),
        ("cues.touch={ column = \"a\", scale = 0 }", "cues.touch.scale"),
        ("cues.meta.column=a", "not meta or multi"),
        ("cues={ \"a b\" = { column = \"a\" } }", "letters"),
    ] {
        let message = refusal("quick", &[set]);
        assert!(message.contains(words), "{set}: {message}");
    }
}
