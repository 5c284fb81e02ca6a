//! How well memories are recalled: rules compared on equal terms, with intervals and a page to
//! look at.

mod arm;
mod bootstrap;
mod clip;
mod comparison;
mod encoded_clip;
mod error;
mod page;
mod prediction;
mod results;
mod rollout;
mod settings;
#[cfg(test)]
mod testing;
mod thumbnail;
mod utility;

pub use arm::{Arm, Choice, Control};
pub use bootstrap::Interval;
pub use clip::{Clip, ClipConfig, ClipQuery};
pub use comparison::{Comparison, ComparisonConfig, RuleResult};
pub use encoded_clip::{EncodedClip, Question};
pub use error::{Error, Result};
pub use page::page;
pub use prediction::{Ask, Predictor};
pub use results::{ArmResults, Curve, RecalledFrame, Replay, ReplayStep, Results};
pub use rollout::Rollout;
pub use settings::{EvaluationSettings, UtilityConfig};
pub use utility::{Draw, UtilityMeter};
