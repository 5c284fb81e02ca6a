//! How well memories are recalled: rules compared on equal terms, with intervals and a page to
//! look at.

mod bootstrap;
mod clip;
mod comparison;
mod error;
mod page;
mod report;
mod results;
mod thumbnail;

pub use bootstrap::Interval;
pub use clip::{Clip, ClipConfig, ClipQuery};
pub use comparison::{Comparison, ComparisonConfig, RuleResult};
pub use error::{Error, Result};
pub use page::page;
pub use report::{
    Arm, Cell, Headline, Metric, PairedCell, PairedRow, ReportRun, Role, Row, Series, TrainingLog,
    Verdict, report_page, summary,
};
pub use results::{ArmResults, Curve, RecalledFrame, Replay, ReplayStep, Results};
