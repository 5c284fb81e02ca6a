//! Saved runs side by side: their arms, their world models, and a judge for all.

use crate::artifact::{Lost, NeededEncoders};
use crate::memory_need::check_judgment;
use crate::{
    CueRegistry, Error, PreparedData, Result, SavedRun, Stage, TrainedArm, TrainingContext,
};
use far_eval::{
    Arm, Control, Evaluation, EvaluationPlan, Perceptual, Probe, Probes, Progress, Results, Shown,
    Sight,
};
use far_memory::policy::PolicyConfig;
use far_memory::{Retriever, ScorerConfig};
use far_model::{CueEncoder, CueFeature, EncodedDataset, WorldModel};
use far_tensor::Device;
use std::sync::Arc;

/// Runs that are evaluated on the same clips.
pub struct RunEvaluation {
    /// The runs, at least one, all of the same dataset and tokenizer.
    pub runs: Vec<SavedRun>,
    /// What each run's arm is called in results, all different.
    pub names: Vec<String>,
    /// Which of them has the common world model: it measures recall quality, and reads for rules and
    /// controls.
    pub judge: usize,
    /// Whether the judge's own arm stands in the results too.
    pub judge_is_arm: bool,
    /// Whether the common world model generates for every arm, or each run's own for its arm.
    pub common: bool,
    /// Published rules that stand beside the runs' arms.
    pub rules: Vec<String>,
    /// Retrievers from files that stand beside them, each by its name, with the judge's world model.
    pub retrievers: Vec<(String, Retriever)>,
    /// What every arm gets alike.
    pub plan: EvaluationPlan,
    /// Features of cues that are neither built in nor columns of the dataset.
    pub features: Vec<Arc<dyn CueFeature>>,
    /// Make probes that are asked besides the built-in ones.
    pub probes: Vec<fn() -> Box<dyn Probe>>,
}

/// Receives progress.
pub struct Listener<'a> {
    /// While datasets and models are opened.
    pub stage: &'a mut dyn FnMut(Stage),
    /// While arms are judged.
    pub progress: &'a mut dyn FnMut(Progress),
}

impl RunEvaluation {
    /// Runs with the plan of the judge's configuration. The judge is the first run that was trained
    /// on mixed contexts, which reads good and bad memories alike, or else the first.
    ///
    /// One run is judged by its own world model, which is then common to all; several generate with
    /// their own each. A run is called by its arm, and where two have the same by its folder as well,
    /// unless that is called as the arm.
    ///
    /// # Panics
    /// If there is no run.
    pub fn new(runs: Vec<SavedRun>) -> Self {
        let mixed = |run: &SavedRun| run.config.training.context == TrainingContext::Mixed;
        let judge = runs.iter().position(mixed).unwrap_or(0);
        let plan = runs[judge].config.evaluation_plan();
        let called = runs.iter().map(|run| {
            let folder = run.folder.file_name().unwrap_or_default();
            (run.config.arm.id.as_str(), folder.to_string_lossy().into_owned())
        });
        let names = names(&called.collect::<Vec<_>>());
        let common = runs.len() == 1;
        Self {
            names,
            judge,
            judge_is_arm: true,
            common,
            rules: Vec::new(),
            retrievers: Vec::new(),
            plan,
            features: Vec::new(),
            probes: Vec::new(),
            runs,
        }
    }

    /// The same for runs whose cues are neither built in nor columns of the dataset.
    pub fn with_features(
        mut self,
        features: impl IntoIterator<Item = Arc<dyn CueFeature>>,
    ) -> Self {
        self.features.extend(features);
        self
    }

    /// The same with one more probe.
    pub fn with_probe(mut self, probe: fn() -> Box<dyn Probe>) -> Self {
        self.probes.push(probe);
        self
    }

    /// The same, with the plan and the world model of this run as the common one.
    ///
    /// # Panics
    /// If there is no such run.
    pub fn judged_by(mut self, judge: usize) -> Self {
        self.plan = self.runs[judge].config.evaluation_plan();
        self.judge = judge;
        self
    }

    /// Judges everything.
    ///
    /// # Errors
    /// If there is no such judge, a run cannot be opened, the runs do not fit together, or the evaluation stops.
    pub fn run(
        &self,
        device: &Device,
        perceptual: Perceptual<'_>,
        sight: Option<&dyn Sight>,
        listener: Listener<'_>,
    ) -> Result<(Results, Shown)> {
        let further = self.further_cues()?;
        let mut prepared = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let (config, folder) = (&run.config, &run.folder);
            let built_in = CueRegistry::of(config);
            let cues = &self.features.iter().cloned().fold(built_in, CueRegistry::with);
            let encoders = NeededEncoders::of(&[&config.arm.arm()?])?.with_optional(&further);
            let (lost, stage) = (Lost::Refuse, &mut *listener.stage);
            let opened =
                PreparedData::open_episodes(config, encoders, cues, folder, device, lost, stage);
            prepared.push(opened?);
        }
        let (config, shape) = (&self.runs[self.judge].config, prepared[self.judge].data());
        let shape = shape.tokenizer().shape();
        check_judgment(config, shape, self.plan.slots, self.plan.batch, device)?;
        let data = self.joined(&prepared, &further)?;
        let mut arms = Vec::new();
        let mut judge: Option<Arc<dyn WorldModel>> = None;
        let mut oracle = Arm::control(Control::Oracle);
        for (number, (run, prepared)) in self.runs.iter().zip(&prepared).enumerate() {
            let trained = TrainedArm::load(prepared, &run.checkpoint)?;
            let model = trained.model().clone();
            let name = &self.names[number];
            if number != self.judge || self.judge_is_arm {
                let arm = trained.into_arm(prepared, name);
                // The world model of the leading arm reads for the oracle as well, so that the two
                // differ in recall alone.
                if !self.common && arm.is_leading() && oracle.model().is_none() {
                    oracle = oracle.with_model(model.clone());
                }
                arms.push(if self.common { arm } else { arm.with_model(model.clone()) });
            }
            if number == self.judge {
                judge = Some(model);
            }
        }
        let description = data.dataset().description();
        for id in &self.rules {
            let rule = PolicyConfig::from_id(id)?;
            let rule = rule.with_camera(&description.camera(), description.overlap_radius);
            let rule = rule.build()?;
            if rule.requirements().poses && !description.poses {
                return Err(Error::Lacking {
                    folder: data.dataset().folder().to_path_buf(),
                    missing: "poses".to_owned(),
                    needed_by: format!("rule `{id}`"),
                });
            }
            if !arms.iter().any(|arm| arm.id() == id) {
                arms.push(Arm::policy(id.clone(), rule));
            }
        }
        for (name, retriever) in &self.retrievers {
            if arms.iter().any(|arm| arm.id() == name) {
                return Err(Error::setting("--retriever", format!("two arms are called `{name}`")));
            }
            check_keys(name, retriever, &data)?;
            arms.push(Arm::policy(name, Box::new(retriever.clone())));
        }
        let none = arms.iter().any(|arm| arm.is(Control::None));
        arms.extend((!none).then(|| Arm::control(Control::None)));
        arms.extend([Arm::control(Control::Copy), oracle, Arm::control(Control::Tokenizer)]);
        let judge = judge.ok_or_else(|| Error::setting("judge", "there is no such run"))?;
        let evaluation = Evaluation {
            dataset: &data,
            episodes: &prepared[self.judge].judged,
            judge: judge.as_ref(),
            arms: &arms,
            plan: &self.plan,
            perceptual,
            probes: Probes { sight, detector: prepared[self.judge].detector.as_ref() },
            device: &device.to_string(),
        };
        let mut probes = evaluation.probes.all();
        probes.extend(self.probes.iter().map(|make| make()));
        let (mut results, mut shown) = evaluation.run_with(probes, listener.progress)?;
        results.train_seconds = Some(self.runs.iter().map(|run| run.seconds).sum());
        for scores in &mut shown.scores {
            // Rules and controls depend on the judge's settings alone.
            let own = self.names.iter().position(|name| *name == scores.arm);
            let run = &self.runs[own.unwrap_or(self.judge)];
            scores.settings = run.config.deciding();
            scores.train_seconds = own.map(|_| run.seconds);
            if let Some((_, file)) = self.retrievers.iter().find(|(name, _)| *name == scores.arm) {
                // The run's are of its own arm; what the file recalls by, it says itself.
                let of_the_arm =
                    |key: &str| key.starts_with("arm.") || key.starts_with("retriever.");
                scores.settings.retain(|key, _| !of_the_arm(key));
                let config = serde_json::to_string(file.config()).expect("numbers and names");
                scores.settings.insert("--retriever".to_owned(), config);
            }
        }
        Ok((results, shown))
    }

    /// Cues whose keys retriever files compare and no run's own arm does.
    fn further_cues(&self) -> Result<Vec<String>> {
        let mut known = Vec::new();
        for run in &self.runs {
            known.extend(NeededEncoders::of(&[&run.config.arm.arm()?])?.cues);
        }
        let files = self.retrievers.iter();
        let keys = files.flat_map(|(_, retriever)| key_cues(retriever)).map(|(cue, _)| cue);
        Ok(keys.filter(|cue| !known.iter().any(|known| known == cue)).map(str::to_owned).collect())
    }

    /// One dataset with the features and encoders of all runs. Those of `further` cues stand last: rules that
    /// name no cue compare the first.
    fn joined(&self, prepared: &[PreparedData], further: &[String]) -> Result<EncodedDataset> {
        let first = prepared[self.judge].data();
        let mut features: Vec<Arc<dyn CueFeature>> = Vec::new();
        let mut encoders: Vec<Arc<dyn CueEncoder>> = Vec::new();
        for (run, prepared) in self.runs.iter().zip(prepared) {
            let data = prepared.data();
            let differ = |what: &str| Error::Differ {
                first: self.runs[self.judge].folder.clone(),
                second: run.folder.clone(),
                what: what.to_owned(),
            };
            if data.dataset().folder() != first.dataset().folder() {
                return Err(differ("dataset"));
            }
            if data.tokenizer().recipe() != first.tokenizer().recipe() {
                return Err(differ("tokenizer"));
            }
            for feature in data.features() {
                match features.iter().find(|known| known.cue() == feature.cue()) {
                    None => features.push(feature.clone()),
                    Some(known) if known.recipe() == feature.recipe() => {}
                    Some(_) => return Err(differ(&format!("cue `{}`", feature.cue()))),
                }
            }
            for encoder in data.encoders() {
                match encoders.iter().find(|known| known.cue() == encoder.cue()) {
                    None => encoders.push(encoder.clone()),
                    Some(known) if known.recipe() == encoder.recipe() => {}
                    Some(_) => return Err(differ(&format!("encoder of `{}`", encoder.cue()))),
                }
            }
        }
        encoders.sort_by_key(|encoder| further.iter().any(|cue| cue == encoder.cue()));
        Ok(first.with_features(features).with_encoders(encoders))
    }
}

/// The cues whose keys a retriever compares, with how many numbers a key has.
fn key_cues(retriever: &Retriever) -> impl Iterator<Item = (&str, usize)> {
    retriever.config().cues.iter().filter_map(|cue| match cue.scorer {
        ScorerConfig::Cosine { dimension, .. } => Some((cue.name.as_str(), dimension)),
        _ => None,
    })
}

/// Refuses a retriever that compares keys which these runs do not have.
fn check_keys(name: &str, retriever: &Retriever, data: &EncodedDataset) -> Result<()> {
    for (cue, numbers) in key_cues(retriever) {
        let found = data.encoders().iter().find(|encoder| encoder.cue() == cue);
        let lacking = match found.map(|encoder| encoder.dimension()) {
            Some(found) if found == numbers => continue,
            Some(found) => format!("here they have {found}"),
            None => "no run here has an encoder of them".to_owned(),
        };
        let reason = format!(
            "`{name}` compares keys of `{cue}` with {numbers} numbers, and {lacking}; judge it with the run \
             that it was trained in, or one prepared from that run"
        );
        return Err(Error::setting("--retriever", reason));
    }
    Ok(())
}

/// What runs are called, each given by its arm's id and its folder's name: by the id, and with the folder
/// where two have the same arm, unless it is called as the arm.
fn names(runs: &[(&str, String)]) -> Vec<String> {
    let name = |(id, folder): &(&str, String)| {
        let alike = runs.iter().filter(|(other, _)| other == id);
        let namesakes = alike.clone().filter(|(_, other)| other == folder).count();
        let is_plain = alike.count() == 1 || folder == id && namesakes == 1;
        if is_plain { (*id).to_owned() } else { format!("{id} ({folder})") }
    };
    runs.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn runs_of_the_same_arm_are_told_apart_by_their_folders() {
        let names = |runs: &[(&'static str, &str)]| {
            let owned = runs.iter().map(|(id, folder)| (*id, (*folder).to_owned()));
            super::names(&owned.collect::<Vec<_>>())
        };
        assert_eq!(names(&[("far-multi", "a"), ("worldmem", "b")]), ["far-multi", "worldmem"]);
        let two = names(&[("far-multi", "far-multi"), ("far-multi", "paper-cues")]);
        assert_eq!(two, ["far-multi", "far-multi (paper-cues)"]);
        assert_eq!(names(&[("far", "a"), ("far", "b")]), ["far (a)", "far (b)"]);
    }
}
