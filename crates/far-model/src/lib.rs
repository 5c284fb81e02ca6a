//! The networks of `far`.

mod dit;
mod token_dit;

pub use dit::{Block, BlockConfig, Grouping};
pub use token_dit::{TokenDit, TokenDitConfig};
