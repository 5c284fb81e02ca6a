//! The report: one self-contained page on which a person sees what was recalled, and why.
//!
//! [`ReportRun`] reads a run's folder, [`report_page`] makes the page. What is counted, compared and
//! put into words is done here; the scripts beside this file only draw it. All of them are
//! inlined, so that the page works from a disk and without a network.

mod both_ends_file;
#[cfg(test)]
mod browser_test;
mod cell;
mod counterfactual_file;
mod curve_group;
mod event_file;
#[cfg(test)]
pub(crate) mod fixture;
mod headline;
mod kept;
mod markdown;
mod metric;
mod page_data;
mod picture_pack;
mod probe_page;
mod replay_file;
mod replay_view;
mod run;
mod run_file;
mod shown_arm;
mod stored_picture;
mod summary;
mod template;
mod trained_part;
mod training_log;
mod verdict;

pub use cell::{Cell, PairedCell, Spread};
pub use event_file::event_file;
pub use headline::{Headline, PairedRow, Row};
pub use kept::{Kept, KeptFile};
pub use markdown::markdown;
pub use metric::{Better, Metric, MetricTable};
pub use page_data::report_page;
pub use run::ReportRun;
pub(crate) use run_file::list;
pub use shown_arm::ShownArm;
pub use summary::summary;
pub use trained_part::{TrainedPart, Training};
pub use training_log::{Series, TrainingLog};
pub use verdict::Verdict;
