//! One arm with a world model of its own, from a configuration: the joint loop as a run drives it.

use crate::companion::{Companions, learned_arms};
use crate::config::{Arm, FarArm, TrainConfig, TrainingContext};
use crate::run::{StepReport, TrainingLoop};
use crate::{
    ContextSource, Error, EvaluationRecord, Joint, JointConfig, LearnedRetriever, PreparedData,
    Result, RetrieverRecord, StepRecord,
};
use far_eval::Control;
use far_memory::policy::{PolicyConfig, RuleConfig};
use far_memory::{RecallPolicy, Retriever};
use far_model::{DitWorldModel, ParameterCount, RetrieverTrainingConfig};
use far_tensor::{Checkpoint, Device};
use std::path::Path;

/// The joint loop of one arm.
pub struct ArmTraining<'a> {
    prepared: &'a PreparedData,
    joint: Joint<'a>,
    recall: Recall,
    companions: Companions,
    parameters: ParameterCount,
}

/// Where the arm's memories come from.
enum Recall {
    /// From the retriever that the loop teaches.
    Learned,
    /// From a retriever with nothing to learn: a frozen encoder alone.
    Frozen(Retriever),
    /// From a rule.
    Rule(PolicyConfig),
}

impl<'a> ArmTraining<'a> {
    /// A fresh world model and, for a learned arm, a fresh retriever.
    ///
    /// # Errors
    /// If the settings do not make a network or a policy.
    pub fn new(prepared: &'a PreparedData) -> Result<Self> {
        Self::with_companions(prepared, &[])
    }

    /// The same with the retrievers of other learned arms, by name with the configuration of each, which
    /// learn beside the arm's own from the credit of the same world model.
    ///
    /// # Errors
    /// As [`ArmTraining::new`]; also if a companion is no learned arm, or has another's name.
    pub fn with_companions(
        prepared: &'a PreparedData,
        companions: &[(String, TrainConfig)],
    ) -> Result<Self> {
        let config = prepared.config();
        let (training, seed) = (&config.training, config.training.seed);
        let setting = prepared.model_setting();
        let parameters = setting.parameter_count()?;
        let model = DitWorldModel::new(setting, training.optimizer(), seed, prepared.device())?;
        let mut retrievers = Vec::new();
        let recall = match prepared.arm() {
            Arm::Rule(rule) => Recall::Rule(prepared.rule(rule.rule.id())?),
            Arm::Far(arm) => {
                let retriever = fresh_retriever(prepared, config, &config.arm.id, arm)?;
                if arm.learns() {
                    retrievers.push(retriever);
                    Recall::Learned
                } else {
                    Recall::Frozen(retriever.policy().clone())
                }
            }
        };
        let others = Companions::of(config, companions);
        for ((name, config), arm) in companions.iter().zip(learned_arms(config, companions)?) {
            retrievers.push(fresh_retriever(prepared, config, name, &arm)?);
        }
        let source = match (training.context, &recall) {
            (TrainingContext::Mixed, _) => {
                ContextSource::mixed(prepared.data().dataset().description().poses)?
            }
            (_, Recall::Learned) => ContextSource::Learned,
            (_, Recall::Frozen(retriever)) => ContextSource::Rule(Box::new(retriever.clone())),
            (_, Recall::Rule(rule)) => ContextSource::Rule(rule.clone().build()?),
        };
        let joint = JointConfig {
            training: training.clone(),
            retriever: config.retriever.clone(),
            utility: config.utility,
            sampling: config.data.sampling(seed),
        };
        let data = prepared.data();
        // Retrievers are small and recall runs on the CPU: they learn there too.
        let cpu = Device::cpu();
        let joint = Joint::new(joint, data, Box::new(model), source, retrievers, &cpu)?;
        Ok(Self { prepared, joint, recall, companions: others, parameters })
    }

    /// Parameters of the world model, part by part.
    pub fn parameters(&self) -> &ParameterCount {
        &self.parameters
    }

    /// What it was made from.
    pub fn prepared(&self) -> &'a PreparedData {
        self.prepared
    }

    /// The loop.
    pub fn joint(&self) -> &Joint<'a> {
        &self.joint
    }

    /// The loop, to be measured.
    pub fn joint_mut(&mut self) -> &mut Joint<'a> {
        &mut self.joint
    }

    /// The arm as evaluations know it, under this name.
    ///
    /// # Errors
    /// If the rule's settings are out of range.
    pub fn arm(&self, name: &str) -> Result<far_eval::Arm> {
        Ok(none_or_policy(self.prepared.arm(), name, self.policy()?))
    }

    /// Writes every retriever that learns here as `NAME.safetensors`, which embeds without the world model.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn save_retrievers(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
        for retriever in self.joint.retrievers() {
            retriever.policy().save(folder.join(format!("{}.safetensors", retriever.name())))?;
        }
        Ok(())
    }

    /// The policy by which the arm recalls now.
    ///
    /// # Errors
    /// If the rule's settings are out of range.
    pub fn policy(&self) -> Result<Box<dyn RecallPolicy>> {
        Ok(match (&self.recall, self.joint.retrievers().first()) {
            (Recall::Rule(rule), _) => rule.clone().build()?,
            (Recall::Frozen(retriever), _) => Box::new(retriever.clone()),
            (Recall::Learned, Some(retriever)) => Box::new(retriever.policy().clone()),
            (Recall::Learned, None) => unreachable!("a learned arm has a retriever"),
        })
    }
}

/// A policy under an arm's name. The rule that recalls nothing is the control `none`; the method as a
/// whole leads.
pub(crate) fn none_or_policy(
    arm: &Arm,
    name: &str,
    policy: Box<dyn RecallPolicy>,
) -> far_eval::Arm {
    match arm {
        Arm::Rule(rule) if matches!(rule.rule, RuleConfig::None(_)) => {
            far_eval::Arm::control(Control::None)
        }
        _ if arm.is_whole() => far_eval::Arm::policy(name, policy).leading(),
        _ => far_eval::Arm::policy(name, policy),
    }
}

/// A fresh retriever of a learned arm, under a name.
pub(crate) fn fresh_retriever(
    prepared: &PreparedData,
    config: &TrainConfig,
    name: &str,
    arm: &FarArm,
) -> Result<LearnedRetriever> {
    let dimension = |cue: &str| prepared.key_dimension(cue);
    LearnedRetriever::new(
        name,
        config.retriever.config(arm, dimension, prepared.scale().time),
        RetrieverTrainingConfig {
            weighting: arm.weights,
            gate_rate: config.retriever.gate_rate_factor,
            ..RetrieverTrainingConfig::default()
        },
        config.training.retriever_optimizer(&config.retriever),
        &config.retriever,
        config.training.seed,
    )
}

impl TrainingLoop for ArmTraining<'_> {
    fn completed(&self) -> u64 {
        self.joint.steps()
    }

    fn step(&mut self) -> Result<StepReport> {
        let made = self.joint.step()?;
        let retrievers = made.retrievers.iter().map(|(arm, report)| {
            let learned = self.joint.retrievers().iter().find(|learned| learned.name() == arm);
            let cues = learned.map_or(&[][..], |learned| &learned.policy().config().cues);
            RetrieverRecord::new(made.number, arm, cues, report)
        });
        let retrievers = retrievers.collect();
        Ok(StepReport { step: StepRecord::new(made.number, &made.world_model), retrievers })
    }

    fn evaluate(&mut self) -> Result<EvaluationRecord> {
        let id = self.prepared.config().arm.id.clone();
        let judge = self.joint.model().average()?;
        let arms = [self.arm(&id)?];
        let plan = self.prepared.config().evaluation_plan_in_training();
        let device = self.prepared.device().to_string();
        let evaluation = self.prepared.evaluation(judge.as_ref(), &arms, &plan, &device);
        let (results, _) = evaluation.run(&mut |_| {})?;
        let found = results.arms.get(&id).into_iter().flatten();
        let values = found.map(|(metric, interval)| (metric.clone(), Some(interval.mean)));
        Ok(EvaluationRecord { step: self.completed(), values: values.collect() })
    }

    fn save(&self, path: &Path) -> Result<()> {
        let writer = self.prepared.preparation.note(self.joint.checkpoint());
        Ok(self.companions.note(writer).save(path)?)
    }

    fn load(&mut self, path: &Path) -> Result<()> {
        let mut checkpoint = Checkpoint::open(path)?;
        let run = path.parent().and_then(Path::parent).unwrap_or(path);
        self.prepared.preparation.check(&checkpoint, run)?;
        self.companions.check(&self.prepared.config().arm.id, &checkpoint)?;
        self.joint.resume(&mut checkpoint)
    }
}
