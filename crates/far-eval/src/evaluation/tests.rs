use super::*;
use crate::arm::Control;
use crate::testing::{ColorTokenizer, Copier, EXPLORED, arms, plan, road};
use crate::{Perceptual, Probes, UtilityConfig};
use far_data::{Episode, Picture};
use far_model::{
    ConditionScale, DdimConfig, DitConfig, DitSetting, DitWorldModel, LatentShape, SignalLayout,
    Tokenizer, TrainableWorldModel,
};
use far_tensor::{AdamWConfig, Device};
use std::sync::Arc;

const RULES: [&str; 4] = ["nearest-pose", "temporal", "random", "longlive-rag"];

fn all_arms() -> Vec<Arm> {
    let mut all = arms(&RULES);
    all.extend(Control::ALL.map(Arm::control));
    all
}

fn evaluate(
    dataset: &EncodedDataset,
    judge: &dyn WorldModel,
    arms: &[Arm],
    plan: &EvaluationPlan,
) -> Result<(Results, Shown)> {
    let episodes: Vec<u32> = dataset.dataset().ids().collect();
    let (perceptual, probes, device) = (Perceptual::default(), Probes::default(), "cpu");
    let evaluation =
        Evaluation { dataset, episodes: &episodes, judge, arms, plan, perceptual, probes, device };
    let mut seen = Progress { done: 0, total: 0 };
    let found = evaluation.run(&mut |progress| {
        assert!(progress.done >= seen.done && progress.done <= progress.total);
        seen = progress;
    });
    if found.is_ok() {
        assert_eq!(seen.done, seen.total);
    }
    found
}

#[test]
fn the_oracle_is_one_chance_is_zero_and_the_nearest_beats_the_latest() {
    let (_folder, dataset) = road(&[21, 23, 25, 27, 29, 21, 23, 25], None);
    let plan = EvaluationPlan { questions: 20, batch: 3, ..plan() };
    let (results, _) = evaluate(&dataset, &Copier::new(), &all_arms(), &plan).unwrap();
    assert_eq!((results.clips, results.judge.as_str()), (8, "common"));
    let quality = |arm: &str| results.arms[arm]["recall_quality"];
    let oracle = quality("oracle");
    assert_eq!((oracle.lo, oracle.mean, oracle.hi), (1.0, 1.0, 1.0));
    assert!(quality("random").mean.abs() < 0.15, "{:?}", quality("random"));
    assert!(quality("nearest-pose").mean > 0.8);
    for metric in ["psnr", "psnr_raw", "psnr_closure", "ssim", "one_step_psnr", "recall_quality"] {
        let difference = results.paired["nearest-pose"]["temporal"][metric];
        assert!(difference.lo > 0.0, "{metric}: {difference:?}");
        let opposite = results.paired["temporal"]["nearest-pose"][metric];
        assert!((difference.mean + opposite.mean).abs() < 1e-9, "{metric}");
    }
    for arm in ["none", "copy", "tokenizer"] {
        assert!(!results.arms[arm].contains_key("recall_quality"), "{arm}");
    }
    let ceiling: Vec<&String> = results.arms["tokenizer"].keys().collect();
    assert_eq!(ceiling, ["psnr_raw"]);
    let curve = &results.curves["temporal"]["psnr"];
    assert_eq!((curve.time.len(), curve.values.len()), (20, 20));
}

#[test]
fn results_survive_json_and_do_not_depend_on_the_batch() {
    let (_folder, dataset) = road(&[9, 21, 13, 5, 3], None);
    let run = |batch| {
        let plan = EvaluationPlan { batch, ..plan() };
        evaluate(&dataset, &Copier::new(), &all_arms(), &plan).unwrap()
    };
    let (results, shown) = run(1);
    // Compared as a whole and not printed: it would fill pages.
    assert!(run(2) == (results.clone(), shown.clone()));
    assert!(run(16) == (results.clone(), shown));
    let text = serde_json::to_string(&results).unwrap();
    let read: Results = serde_json::from_str(&text).unwrap();
    let [wrote, read] =
        [results, read].map(|results| results.paired["random"]["temporal"]["recall_quality"]);
    assert!((wrote.mean - read.mean).abs() < 1e-9 && (wrote.lo - read.lo).abs() < 1e-9);
}

#[test]
fn replays_show_what_was_generated_and_recalled() {
    let (_folder, dataset) = road(&[9, 9], None);
    let (_, shown) = evaluate(&dataset, &Copier::new(), &all_arms(), &plan()).unwrap();
    let [replay] = &shown.replays[..] else { panic!("one replay is planned") };
    assert_eq!((replay.episode, replay.boundary, replay.path.len()), (0, EXPLORED, EXPLORED + 9));
    assert_eq!(replay.frames, [42, 44, 46, 48]);
    assert_eq!(replay.truth, replay.decoded);
    assert!(!replay.arms.contains_key("tokenizer"));
    let steps = &replay.arms["nearest-pose"];
    assert_eq!(steps.len(), 4);
    for (step, truth) in steps.iter().zip(&replay.truth) {
        assert_eq!((&step.picture, step.psnr), (truth, 100.0));
        assert_eq!(step.recalled.len(), 3);
        assert!(step.recalled.iter().all(|memory| replay.memories.contains_key(&memory.frame)));
        assert!(step.recalled.iter().all(|memory| memory.score.is_some()));
        // The place itself is better than the mean of the pool.
        assert!(step.recalled[0].utility.is_some_and(|utility| utility > 0.0));
    }
    assert!(replay.arms["none"].iter().all(|step| step.recalled.is_empty()));
}

#[test]
fn without_rollouts_questions_remain() {
    let (_folder, dataset) = road(&[9, 21], None);
    let plan = EvaluationPlan { steps: Some(0), clips: Some(1), ..plan() };
    let (results, shown) = evaluate(&dataset, &Copier::new(), &all_arms(), &plan).unwrap();
    assert_eq!((results.clips, shown.replays.len(), results.curves.len()), (1, 0, 0));
    let metrics: Vec<&String> = results.arms["nearest-pose"].keys().collect();
    assert_eq!(metrics, ["one_step_psnr", "recall_quality"]);
}

/// Keeps colors and cannot show them, like latents that came with the data.
struct Opaque;

impl Tokenizer for Opaque {
    fn shape(&self) -> LatentShape {
        ColorTokenizer.shape()
    }

    fn recipe(&self) -> String {
        ColorTokenizer.recipe()
    }

    fn encode(&self, episode: &Episode, frames: &[usize]) -> far_model::Result<Vec<f32>> {
        ColorTokenizer.encode(episode, frames)
    }

    fn decode(&self, _: &[f32]) -> Option<Picture> {
        None
    }
}

#[test]
fn latents_that_nobody_can_decode_still_have_recall_quality() {
    let (folder, dataset) = road(&[9, 9], None);
    let (cache, encoders) = (folder.path().join("opaque"), dataset.encoders().to_vec());
    let opaque =
        EncodedDataset::new(dataset.dataset().clone(), Arc::new(Opaque), encoders, cache, 1 << 20);
    let episodes: Vec<u32> = opaque.dataset().ids().collect();
    let (judge, arms, plan) = (Copier::new(), all_arms(), plan());
    let evaluation = Evaluation {
        dataset: &opaque,
        episodes: &episodes,
        judge: &judge,
        arms: &arms,
        plan: &plan,
        perceptual: Perceptual::default(),
        probes: Probes::default(),
        device: "cpu",
    };
    let (results, shown) = evaluation.run(&mut |_| ()).unwrap();
    assert!(shown.replays.is_empty() && shown.probes.is_empty());
    assert_eq!(shown.scores.len(), arms.len(), "every arm leaves its scores");
    let metrics: Vec<&String> = results.arms["nearest-pose"].keys().collect();
    assert_eq!(metrics, ["recall_quality"]);
    assert!(judge.noises.lock().unwrap().is_empty(), "nothing is generated without a decoder");
}

#[test]
fn a_world_model_of_its_own_generates_and_the_common_one_judges_recall() {
    let (_folder, dataset) = road(&[9, 21], None);
    let common = evaluate(&dataset, &Copier::new(), &all_arms(), &plan()).unwrap().0;
    let own = Arc::new(Copier::stubborn(0.0));
    let mut arms = all_arms();
    let nearest = arms.remove(0).with_model(own);
    arms.insert(0, nearest);
    let results = evaluate(&dataset, &Copier::new(), &arms, &plan()).unwrap().0;
    assert_eq!(results.judge, "own");
    let [before, after] = [&common, &results].map(|results| &results.arms["nearest-pose"]);
    assert!(after["psnr"].mean < before["psnr"].mean);
    assert!(after["one_step_psnr"].mean < before["one_step_psnr"].mean);
    assert_eq!(after["recall_quality"], before["recall_quality"]);
    assert_eq!(results.arms["temporal"], common.arms["temporal"]);
}

#[test]
fn mistakes_are_named() {
    let (_folder, dataset) = road(&[9], None);
    let refused = |judge: &dyn WorldModel, arms: &[Arm], plan: &EvaluationPlan| {
        evaluate(&dataset, judge, arms, plan).unwrap_err().to_string()
    };
    let twice = arms(&["temporal", "temporal"]);
    let judge = Copier::new();
    assert!(refused(&judge, &twice, &plan()).contains("arm temporal: two arms"));
    let alone = [Arm::control(Control::Copy)];
    assert!(refused(&judge, &alone, &plan()).contains("copy: no arm has a policy"));
    let batch = EvaluationPlan { batch: 0, ..plan() };
    assert!(refused(&judge, &arms(&["temporal"]), &batch).contains("batch"));
    let long = far_data::EvaluationConfig { stride: 100, pool: 10 };
    let nothing = EvaluationPlan { walk: long, ..plan() };
    assert!(refused(&judge, &arms(&["temporal"]), &nothing).contains("no episode"));
    let diverged = Copier::stubborn(f32::NAN);
    let message = refused(&diverged, &arms(&["temporal"]), &plan());
    assert!(message.contains("arm temporal") && message.contains("NaN"), "{message}");
}

/// The diffusion transformer itself, untaught: the same bytes with any number of threads.
#[test]
fn a_diffusion_transformer_is_judged_alike_by_any_number_of_threads() {
    let (_folder, dataset) = road(&[5, 9], None);
    let config = DitConfig { depth: 2, width: 16, heads: 2, ..DitConfig::default() };
    let shape = dataset.tokenizer().shape();
    let scale = ConditionScale { length: 4.0, time: 12.8 };
    let signals = SignalLayout::default();
    let setting = DitSetting { config, shape, scale, signals, view: None };
    let sampler = DdimConfig { steps: 3, ..DdimConfig::default() };
    let utility = UtilityConfig { draws: 2, candidates: 8, batch: 5, ..UtilityConfig::default() };
    let plan = EvaluationPlan { slots: 11, sampler, utility, ..plan() };
    let [one, three] = [1, 3].map(|threads| {
        let device = Device::with_threads(threads);
        let model =
            DitWorldModel::new(setting.clone(), AdamWConfig::default(), 7, &device).unwrap();
        evaluate(&dataset, &*model.average().unwrap(), &all_arms(), &plan).unwrap()
    });
    assert!(one == three);
    // Before it has learned anything no memory is better than another.
    assert!(!one.0.arms["nearest-pose"].contains_key("recall_quality"));
    assert!(one.0.arms["nearest-pose"]["psnr"].mean.is_finite());
}
