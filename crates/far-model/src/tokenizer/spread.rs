//! Frames to fit a tokenizer to.

use crate::{Error, Result};
use far_data::{Dataset, Picture};
use rayon::prelude::*;

/// About `count` frames of these episodes, evenly spread over each and as many from every one,
/// converted one by one; in the order of the episodes and of time.
///
/// # Errors
/// If a frame has no picture, or there is no frame at all.
pub(super) fn spread_frames<T: Send>(
    dataset: &Dataset,
    episodes: &[u32],
    count: usize,
    convert: impl Fn(&Picture) -> T + Sync,
) -> Result<Vec<T>> {
    let share = count.div_ceil(episodes.len().max(1));
    let parts: Vec<Vec<T>> = episodes
        .par_iter()
        .map(|id| -> Result<Vec<T>> {
            let episode = dataset.episode(*id)?;
            let count = share.min(episode.len());
            let frames = (0..count).map(|place| place * episode.len() / count);
            frames.map(|frame| Ok(convert(&episode.picture(frame)?))).collect()
        })
        .collect::<Result<_>>()?;
    let frames: Vec<T> = parts.into_iter().flatten().collect();
    if frames.is_empty() {
        let reason = "there are no frames to fit the tokenizer to".to_owned();
        return Err(Error::Setting { setting: "data", reason });
    }
    Ok(frames)
}
