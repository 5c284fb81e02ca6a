//! `[cues.NAME]`: a key cue that is a column of numbers in the dataset.

use super::positive_number;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Cues whose encoders read the latents of frames: what is seen, and who is seen.
pub const LATENT_CUES: [&str; 2] = ["vision", "agent"];

/// Where the numbers of a cue stand, and what counts as 1 among them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CueColumn {
    /// The column of the episodes' files: float32, or fixed_size_list<float32, n>.
    pub column: String,
    /// The numbers are divided by it, so that those that matter are about 1.
    #[serde(default = "one")]
    pub scale: f32,
}

fn one() -> f32 {
    1.0
}

/// Checks names and scales.
pub(super) fn check(cues: &BTreeMap<String, CueColumn>) -> Result<()> {
    for (name, cue) in cues {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        let reserved = ["meta", "multi"].contains(&name.as_str());
        if name.is_empty() || !name.chars().all(plain) || reserved {
            let reason = "a cue is named by letters, digits, - and _, and not meta or multi";
            return Err(Error::setting(&format!("cues.{name}"), reason));
        }
        if cue.column.is_empty() {
            return Err(Error::setting(&format!("cues.{name}.column"), "names no column"));
        }
        positive_number(&format!("cues.{name}.scale"), cue.scale)?;
    }
    Ok(())
}
