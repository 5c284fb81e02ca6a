//! A world model in Python judged as `far eval` judges the project's own, and the page of `far report`.

use crate::dataset::Dataset;
use crate::failure::{Failure, Kind, Outcome};
use crate::judged_model::{JudgedKeys, JudgedModel, Pixels};
use crate::policy::Policy;
use far_data::{DatasetDescription, Picture};
use far_eval::{
    Arm, Control, Distance, Evaluation, EvaluationPlan, Perceptual, Probes, Progress, ReportRun,
    Results, report_page,
};
use far_memory::policy::PolicyConfig;
use far_model::{CueEncoder, EncodedDataset, Lpips};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most bytes of frames that stay in memory.
const HELD: usize = 1 << 30;

/// An arm: its name, and a rule by id, which takes the dataset's camera, or a policy as it is.
type GivenArm = (String, Option<String>, Option<Py<Policy>>);

/// Judges a model under every arm and the controls `none`, `copy` and `oracle`; returns the results as JSON.
/// With a folder, `results.json`, replays and scores are written there.
#[pyfunction]
#[pyo3(signature = (dataset, episodes, predict, keys, cues, arms, plan, cache, lpips, device, train_seconds, folder, progress))]
#[allow(clippy::too_many_arguments, reason = "each says something about the evaluation")]
pub fn evaluate_model(
    py: Python<'_>,
    dataset: &Bound<'_, Dataset>,
    episodes: Vec<u32>,
    predict: Py<PyAny>,
    keys: Py<PyAny>,
    cues: Vec<(String, usize)>,
    arms: Vec<GivenArm>,
    plan: &str,
    cache: PathBuf,
    lpips: Option<PathBuf>,
    device: &str,
    train_seconds: Option<f64>,
    folder: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let plan: EvaluationPlan = serde_json::from_str(plan).map_err(|cause| {
        Failure::input(format!("this is no plan: {cause}"), "look at the arguments of evaluate()")
    })?;
    let data = Arc::new(dataset.get().reopened()?);
    let size = data.description().resolution;
    let arms = arms_of(&arms, data.description())?;
    let model = Arc::new(JudgedModel::new(predict, keys, size));
    let encoders = cues.into_iter().map(|(cue, dimension)| {
        Arc::new(JudgedKeys { model: model.clone(), cue, dimension }) as Arc<dyn CueEncoder>
    });
    let encoders: Vec<_> = encoders.collect();
    let found = py.detach(|| {
        let lpips = Lpips::find(lpips.as_deref()).map_err(far_eval::Error::from)?;
        let lpips_side = lpips.as_ref().map_or(0, |lpips| lpips.net().least_side());
        let lpips = lpips.map(|lpips| move |a: &Picture, b: &Picture| lpips.distance(a, b));
        let lpips = lpips.as_ref().map(|distance| distance as &Distance<'_>);
        let data = EncodedDataset::new(data, Arc::new(Pixels { size }), encoders, cache, HELD);
        let evaluation = Evaluation {
            dataset: &data,
            episodes: &episodes,
            judge: model.as_ref(),
            arms: &arms,
            plan: &plan,
            perceptual: Perceptual { lpips, lpips_side, dreamsim: None },
            probes: Probes::default(),
            device,
        };
        let (mut results, mut shown) = evaluation.run(&mut |done| tell(progress.as_ref(), done))?;
        results.train_seconds = train_seconds;
        for scores in &mut shown.scores {
            let learned = arms.iter().find(|arm| arm.id() == scores.arm && arm.is_leading());
            scores.train_seconds = learned.and(train_seconds);
        }
        if let Some(folder) = &folder {
            results.write(folder)?;
            shown.write(folder)?;
        }
        Ok::<Results, far_eval::Error>(results)
    });
    // What the model itself raised says more than that it refused.
    let results = found.map_err(|error| match model.take_raised() {
        Some(raised) => raised,
        None => Failure::from(error).into(),
    })?;
    Ok(serde_json::to_string(&results).expect("results have only text keys"))
}

/// Writes the page of `far report` for a run's folder; returns its path.
#[pyfunction]
pub fn write_report(py: Python<'_>, folder: PathBuf) -> PyResult<PathBuf> {
    Ok(py.detach(|| page(&folder))?)
}

fn page(folder: &Path) -> Outcome<PathBuf> {
    let page = report_page(&[ReportRun::read(folder)?]);
    let path = folder.join("report").join("index.html");
    let written = std::fs::create_dir_all(folder.join("report"));
    written.and_then(|()| std::fs::write(&path, page)).map_err(|error| {
        let cause = format!("cannot write {}: {error}", path.display());
        Failure::new(
            Kind::Dataset,
            cause,
            "look at the folder's permissions and the room on the disk",
        )
    })?;
    Ok(path)
}

/// The arms and the controls beside them. The first learned arm leads.
fn arms_of(given: &[GivenArm], description: &DatasetDescription) -> Outcome<Vec<Arm>> {
    let mut arms = Vec::with_capacity(given.len() + 3);
    for (name, rule, policy) in given {
        let policy = match (rule, policy) {
            (Some(id), _) => {
                let rule = PolicyConfig::from_id(id)?;
                rule.with_camera(&description.camera(), description.overlap_radius).build()?
            }
            (None, Some(policy)) => policy.get().again()?,
            (None, None) => {
                return Err(Failure::input(
                    format!("arm {name:?} has no policy"),
                    "give an id or a Policy",
                ));
            }
        };
        let learned = policy.is_learned() && !arms.iter().any(Arm::is_leading);
        let arm = Arm::policy(name.clone(), policy);
        arms.push(if learned { arm.leading() } else { arm });
    }
    arms.push(Arm::control(Control::None));
    // There is something to paste and something to choose only where somebody recalls.
    if !given.is_empty() {
        arms.extend([Control::Copy, Control::Oracle].map(Arm::control));
    }
    Ok(arms)
}

/// Tells a listener in Python how far the evaluation is; what it raises is not the evaluation's.
fn tell(listener: Option<&Py<PyAny>>, Progress { done, total }: Progress) {
    if let Some(listener) = listener {
        Python::attach(|py| {
            if let Err(error) = listener.call1(py, (done, total)) {
                error.write_unraisable(py, None);
            }
        });
    }
}
