//! The networks of `far`.

mod dit;
mod metadata_scorer;
mod posterior;
mod token_dit;

pub use dit::{Block, BlockConfig, Grouping};
pub use metadata_scorer::TrainableMetadataScorer;
pub use posterior::posterior_divergence;
pub use token_dit::{TokenDit, TokenDitConfig};
