//! What a configuration needs of a dataset, checked before anything is computed.

use crate::config::{Arm, TokenizerKind, TrainConfig, probable_arm};
use crate::{CueRegistry, Error, Result};
use far_data::{Dataset, DatasetDescription, ImageEncoding};
use std::path::Path;

/// The folder of latents that came with a dataset.
const LATENTS: &str = "latents";
/// The cue of times and, where there are any, poses in `dataset.json`.
const METADATA: &str = "metadata";

/// Checks that the dataset has what the configuration needs: pictures or latents, the cues of the
/// arm, poses for those that look at them, masks. A cue of one's own need not stand in
/// `dataset.json`: its feature says what is missing.
///
/// # Errors
/// [`Error::Lacking`] with the first thing that is missing.
pub fn check_dataset(config: &TrainConfig, cues: &CueRegistry, dataset: &Dataset) -> Result<()> {
    check_description(config, cues, dataset.description(), dataset.folder())
}

/// The same for a dataset that may not have been recorded yet.
pub(crate) fn check_description(
    config: &TrainConfig,
    cues: &CueRegistry,
    description: &DatasetDescription,
    folder: &Path,
) -> Result<()> {
    let lacking = |missing: &str, needed_by: &str| {
        Err(Error::Lacking {
            folder: folder.to_path_buf(),
            missing: missing.to_owned(),
            needed_by: needed_by.to_owned(),
        })
    };
    let has_cue = |name: &str| description.cues.iter().any(|cue| cue == name);
    match &config.tokenizer.kind {
        TokenizerKind::Precomputed(_) if !folder.join(LATENTS).is_dir() => {
            return lacking("folder `latents`", "tokenizer.kind = \"precomputed\"");
        }
        TokenizerKind::Precomputed(_) => {}
        _ if description.images == ImageEncoding::Video => {
            return Err(Error::FramesInVideos { folder: folder.to_path_buf() });
        }
        _ if description.images == ImageEncoding::None => {
            return lacking("pictures", "a tokenizer other than \"precomputed\"");
        }
        TokenizerKind::Network(name) => {
            // The ViT-VAE divides by 20, the others by 8; the world model by two.
            let multiple = if name == "oasis" { 40 } else { 16 };
            let fits = description.resolution.iter().all(|side| side.is_multiple_of(multiple));
            if !fits && !name.ends_with(".safetensors") {
                let missing = format!("frames whose sides are multiples of {multiple} pixels");
                return lacking(&missing, &format!("tokenizer.kind = \"{name}\""));
            }
        }
        _ => {}
    }
    let arm = config.arm.arm()?;
    let needed_by = format!("arm `{}`", config.arm.id);
    for cue in arm.key_cues() {
        if !has_cue(cue) && !cues.is_own(cue) {
            let id = &config.arm.id;
            if let Some(near) = probable_arm(id).filter(|near| near != id) {
                let reason = format!("there is no cue `{cue}`; did you mean `{near}`?");
                return Err(Error::setting("arm.id", reason));
            }
            return lacking(&format!("cue `{cue}`"), &needed_by);
        }
    }
    match &arm {
        Arm::Far(arm) if arm.metadata && !has_cue(METADATA) => {
            return lacking("times and poses (cue `metadata`)", &needed_by);
        }
        Arm::Rule(rule) if rule.clone().build()?.requirements().poses => {
            if !description.poses || !has_cue(METADATA) {
                return lacking("poses (cue `metadata`)", &needed_by);
            }
        }
        Arm::Far(_) | Arm::Rule(_) => {}
    }
    if config.world_model.seen_from_goal.is_some() && !description.poses {
        return lacking("poses", "world_model.seen_from_goal");
    }
    if let Some(signal) = config.conditioning.lacking(description) {
        return lacking(&format!("signal `{}`", signal.name()), "[conditioning]");
    }
    let mask = config.training.change_mask.as_ref().map(|mask| mask.source.signal());
    match mask {
        Some(signal) if !description.signals.contains(&signal) => {
            lacking(&format!("signal `{}`", signal.name()), "training.change_mask")
        }
        _ => Ok(()),
    }
}
