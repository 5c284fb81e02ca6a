//! Every rule by its id, with settings that can be read and written as text.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::rule::RulePolicy;
use super::{
    CarClosestConfig, ContextAsMemoryConfig, FovTopKConfig, FramePackConfig, I3dmConfig,
    LongLiveRagConfig, MatrixGameConfig, MixtureOfContextsConfig, NearestPoseConfig, NoneConfig,
    OracleConfig, RandomConfig, RecallPolicy, SeoulConfig, SpMemConfig, SpatiaConfig,
    TemporalConfig, VragConfig, VragSegmentsConfig, WorldMemConfig, WorldMemPaperConfig,
};
use crate::{Camera, Error, Retriever};

/// A policy with all its settings.
///
/// As text it is one flat table: `id`, the settings of that rule and, for every rule, `pool_cap`.
/// Settings left out have the published values; an unknown name is an error.
///
/// ```
/// use far_memory::policy::PolicyConfig;
/// let text = r#"{ "id": "worldmem", "pool_cap": 200, "view": { "radius": 6.0 } }"#;
/// let config: PolicyConfig = serde_json::from_str(text)?;
/// assert_eq!(config.build()?.id(), "worldmem");
/// assert!(serde_json::from_str::<PolicyConfig>(r#"{ "id": "worldmem", "raduis": 6 }"#).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyConfig {
    /// Search at most this many records of the pool, evenly spaced from the oldest. Some papers
    /// cap one arm: WorldMem at 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_cap: Option<usize>,
    /// The rule.
    #[serde(flatten)]
    pub rule: RuleConfig,
}

impl From<RuleConfig> for PolicyConfig {
    fn from(rule: RuleConfig) -> Self {
        Self { pool_cap: None, rule }
    }
}

impl PolicyConfig {
    /// The policy with this id and its published settings.
    ///
    /// # Errors
    /// [`Error::UnknownPolicy`] if there is none.
    pub fn from_id(id: &str) -> Result<Self, Error> {
        RuleConfig::from_id(id).map(Self::from)
    }

    /// Sets the cap of the pool.
    pub fn with_pool_cap(mut self, cap: usize) -> Self {
        self.pool_cap = Some(cap);
        self
    }

    /// Takes the field of view and the viewing range in meters of a dataset's camera, if the rule
    /// has such settings; other rules stay unchanged.
    pub fn with_camera(mut self, camera: &Camera, reach: f32) -> Self {
        match &mut self.rule {
            RuleConfig::WorldMem(config) => config.view.set_camera(camera, reach),
            RuleConfig::WorldMemPaper(config) => config.view.set_camera(camera, reach),
            RuleConfig::FovTopK(config) => config.view.set_camera(camera, reach),
            RuleConfig::ContextAsMemory(config) => config.set_camera(camera, reach),
            RuleConfig::MatrixGame(config) => config.frustum.set_camera(camera, reach),
            RuleConfig::I3dm(config) => config.frustum.set_camera(camera, reach),
            RuleConfig::SpMem(config) => {
                config.frustum.set_camera(camera, reach);
                config.view.set_camera(camera, reach);
            }
            RuleConfig::Spatia(config) => config.view.set_camera(camera, reach),
            RuleConfig::Seoul(config) => config.view.set_camera(camera, reach),
            _ => {}
        }
        self
    }

    /// Makes the policy.
    ///
    /// # Errors
    /// [`Error::PolicyOption`] for a setting out of range; for `far` also those of
    /// [`Retriever::load`].
    pub fn build(self) -> Result<Box<dyn RecallPolicy>, Error> {
        if self.pool_cap == Some(0) {
            super::view::check_count("pool_cap", 0)?;
        }
        self.rule.build(self.pool_cap)
    }
}

crate::settings! {
    /// The learned rule of Future-Aware Recall: a trained retriever, loaded from its file.
    pub struct FarConfig {
        /// Path of the retriever's file.
        pub retriever: PathBuf = PathBuf::new(),
        /// Threads for large pools. The result does not depend on it.
        pub threads: usize = 1,
    }
}

impl FarConfig {
    fn load(&self) -> Result<Retriever, Error> {
        if self.retriever.as_os_str().is_empty() {
            return Err(Error::PolicyOption {
                option: "retriever".to_owned(),
                value: "not set".to_owned(),
                wanted: "the path of a retriever's file".to_owned(),
            });
        }
        Ok(Retriever::load(&self.retriever)?.with_threads(self.threads))
    }
}

/// One entry per rule: its id, its settings, the number of slots in its source, what it
/// recalls.
macro_rules! rules {
    ($($id:tt $variant:ident($config:ty) slots $slots:expr, $summary:literal;)*) => {
        /// The settings of one rule, tagged by its id.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "id")]
        pub enum RuleConfig {
            /// `far`
            #[serde(rename = "far")]
            Far(FarConfig),
            $(
                #[doc = concat!("`", $id, "`")]
                #[serde(rename = $id)]
                $variant($config),
            )*
        }

        impl RuleConfig {
            /// The ids of all rules.
            pub const IDS: &'static [&'static str] = &["far", $($id),*];

            /// The id of the rule.
            pub fn id(&self) -> &'static str {
                match self {
                    Self::Far(_) => "far",
                    $(Self::$variant(_) => $id,)*
                }
            }

            /// The rule with this id and its published settings.
            ///
            /// # Errors
            /// [`Error::UnknownPolicy`] if there is none.
            pub fn from_id(id: &str) -> Result<Self, Error> {
                match id {
                    "far" => Ok(Self::Far(FarConfig::default())),
                    $($id => Ok(Self::$variant(<$config>::default())),)*
                    _ => Err(Error::UnknownPolicy {
                        id: id.to_owned(),
                        known: Self::IDS.iter().map(|&id| id.to_owned()).collect(),
                    }),
                }
            }

            /// How many memories the rule's source recalls, if it states a number.
            pub fn published_slots(&self) -> Option<usize> {
                match self {
                    Self::Far(_) => Some(11),
                    $(Self::$variant(_) => $slots,)*
                }
            }

            fn build(self, pool_cap: Option<usize>) -> Result<Box<dyn RecallPolicy>, Error> {
                match self {
                    Self::Far(config) => Ok(Box::new(config.load()?.with_pool_cap(pool_cap))),
                    $(Self::$variant(config) => {
                        Ok(Box::new(RulePolicy::new($id, $summary, config, pool_cap)?))
                    })*
                }
            }
        }
    };
}

rules! {
    "none" None(NoneConfig) slots Some(0),
        "recalls nothing";
    "random" Random(RandomConfig) slots None,
        "a draw from the whole past";
    "temporal" Temporal(TemporalConfig) slots Some(4),
        "the latest";
    "nearest-pose" NearestPose(NearestPoseConfig) slots None,
        "closest place and direction to the goal";
    "worldmem" WorldMem(WorldMemConfig) slots Some(8),
        "cover the coming view, then what is left of it";
    "worldmem-paper" WorldMemPaper(WorldMemPaperConfig) slots Some(8),
        "view overlap and recency, similar ones cut";
    "fov-topk" FovTopK(FovTopKConfig) slots None,
        "most view overlap, without the residual";
    "longlive-rag" LongLiveRag(LongLiveRagConfig) slots Some(6),
        "keys most like the present, the latest left out";
    "context-as-memory" ContextAsMemory(ContextAsMemoryConfig) slots Some(20),
        "crossing fields of view, one of each run";
    "vrag" Vrag(VragConfig) slots Some(10),
        "nearest state, in order of time";
    "vrag-segments" VragSegments(VragSegmentsConfig) slots Some(10),
        "ever longer stretches of the past";
    "matrix-game" MatrixGame(MatrixGameConfig) slots Some(5),
        "best frustum overlap for each coming frame, and the first";
    "i3dm" I3dm(I3dmConfig) slots Some(4),
        "raise the confidence of every cell, and the last";
    "spmem" SpMem(SpMemConfig) slots None,
        "novel keyframes that cover the view, and the latest";
    "framepack" FramePack(FramePackConfig) slots Some(19),
        "similarity plus recency";
    "mixture-of-contexts" MixtureOfContexts(MixtureOfContextsConfig) slots Some(5),
        "chunks by mean key, the local one always";
    "car-closest" CarClosest(CarClosestConfig) slots Some(1),
        "closest camera matrix";
    "spatia" Spatia(SpatiaConfig) slots Some(7),
        "a memory of its own for each coming view";
    "seoul" Seoul(SeoulConfig) slots Some(5),
        "nearest along the way, and one for its end";
    "oracle" Oracle(OracleConfig) slots None,
        "the greatest utility, which was measured with the future";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_builds_and_survives_text() {
        for id in RuleConfig::IDS {
            let config = PolicyConfig::from_id(id).expect("known").with_pool_cap(200);
            assert_eq!(config.rule.id(), *id);
            let text = serde_json::to_string(&config).expect("serializes");
            assert_eq!(serde_json::from_str::<PolicyConfig>(&text).expect("reads back"), config);
            let bare = format!(r#"{{ "id": {id:?} }}"#);
            let bare: PolicyConfig = serde_json::from_str(&bare).expect("defaults");
            assert_eq!(bare.with_pool_cap(200), config);
            match config.build() {
                Ok(policy) => assert_eq!(policy.id(), *id),
                // Nothing was trained, so there is no file to load.
                Err(error) => assert!(*id == "far" && error.to_string().contains("retriever")),
            }
            let wrong = format!(r#"{{ "id": {id:?}, "no_such_setting": 1 }}"#);
            assert!(serde_json::from_str::<PolicyConfig>(&wrong).is_err(), "{id}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let unknown = PolicyConfig::from_id("worldmemory").expect_err("no such rule").to_string();
        assert!(unknown.contains("worldmemory") && unknown.contains("longlive-rag"), "{unknown}");
        let text = r#"{ "id": "worldmem", "view": { "horizontal_degrees": 190 } }"#;
        let config: PolicyConfig = serde_json::from_str(text).expect("reads");
        let refused = config.build().err().expect("out of range").to_string();
        assert!(refused.contains("horizontal_degrees") && refused.contains("190"), "{refused}");
        assert!(PolicyConfig::from_id("random").expect("known").with_pool_cap(0).build().is_err());
        for absurd in [
            r#"{ "id": "worldmem", "view": { "points": 1000000000000 } }"#,
            r#"{ "id": "matrix-game", "frustum": { "cells": [4294967296, 4294967296, 2] } }"#,
        ] {
            let config: PolicyConfig = serde_json::from_str(absurd).expect("reads");
            assert!(config.build().is_err(), "{absurd} would take all of RAM");
        }
    }

    #[test]
    fn the_corpus_sets_field_of_view_and_reach() {
        let camera = Camera::from_degrees(80.0, 50.0);
        for id in RuleConfig::IDS {
            let config = PolicyConfig::from_id(id).expect("known").with_camera(&camera, 6.0);
            let text = serde_json::to_string(&config).expect("serializes");
            let has_view = text.contains("horizontal_degrees");
            if let Ok(policy) = config.clone().build() {
                assert_eq!(policy.requirements().views, has_view, "{id}");
                assert!(!policy.summary().is_empty(), "{id}");
            }
            if has_view {
                assert!(text.contains("80.0") || text.contains("79.99"), "{text}");
                assert!(text.contains(":6.0") && !text.contains("30.0"), "{text}");
            }
            assert!(config.build().is_ok() || *id == "far");
        }
    }
}
