//! Reads every byte of an episode and checks every rule of the format.

use crate::dataset_writer::episode_path;
use crate::frame_check::FrameCheck;
use crate::frame_schema::column;
use crate::{
    AgentState, DataError, Dataset, Episode, EpisodeFacts, EpisodeSummary, ImageEncoding, Result,
    Signal, durable,
};
use std::sync::Arc;

/// Checks one episode completely: hash, rows, pictures, masks, sound, and what the index says of
/// it. Returns the open episode, so that a caller can go on with it.
pub fn verify_episode(dataset: &Dataset, id: u32) -> Result<Arc<Episode>> {
    let summary = dataset.summary(id)?;
    let path = episode_path(dataset.folder(), id);
    let episode = dataset.episode(id)?;
    same_hash(id, "Arrow", summary.hash.as_deref(), || durable::hash_file(&path))?;
    same_facts(&episode, &summary)?;
    if let Some(pair) = &summary.facts.pair
        && dataset.summary(pair.episode).is_err()
    {
        let reason = format!("its pair, episode {}, is not in the dataset", pair.episode);
        return Err(DataError::Episode { episode: id, reason });
    }
    episode.check_frame_rate()?;
    frames(&episode)?;
    if let Some(commands) = &dataset.description().robot_action {
        commands.stored(&episode)?;
    }
    sound(&episode, &summary)?;
    video(&episode)?;
    Ok(episode)
}

fn same_hash(
    episode: u32,
    kind: &str,
    listed: Option<&str>,
    found: impl FnOnce() -> Result<String>,
) -> Result<()> {
    let Some(listed) = listed else { return Ok(()) };
    let found = found()?;
    if found != listed {
        let reason = format!("its {kind} file has SHA-256 {found}, episodes.arrow says {listed}");
        return Err(DataError::Episode { episode, reason });
    }
    Ok(())
}

/// The facts noted in the file against the row of the index: catches files that were swapped.
fn same_facts(episode: &Episode, summary: &EpisodeSummary) -> Result<()> {
    let noted = episode.note().and_then(|note| serde_json::from_str::<EpisodeFacts>(note).ok());
    if noted.is_some_and(|noted| noted != summary.facts) {
        let reason =
            "scene, split, route, tier, seed or pair differ between its file and episodes.arrow";
        return Err(DataError::Episode { episode: summary.id, reason: reason.into() });
    }
    Ok(())
}

fn frames(episode: &Episode) -> Result<()> {
    let description = episode.description();
    let mut check = FrameCheck::new(description, episode.id());
    let lag = description.agent_lag as usize;
    for index in 0..episode.len() {
        check.next(&episode.frame(index)?)?;
        if description.images.in_episodes() {
            episode.picture(index)?;
        }
        let before = index.checked_sub(lag).map_or(AgentState::default(), |at| episode.agent(at));
        if description.has(Signal::Agent) && episode.agent_before(index) != before {
            let reason = format!("is not the agent of {lag} frames before");
            return Err(episode.wrong(index, column::AGENT_VISIBLE_BEFORE, reason));
        }
    }
    Ok(())
}

fn sound(episode: &Episode, summary: &EpisodeSummary) -> Result<()> {
    let Some(rate) = episode.description().audio_rate else { return Ok(()) };
    let path = episode.audio_path();
    let audio = episode.audio()?.expect("the dataset has audio");
    same_hash(summary.id, "WAV", summary.audio_hash.as_deref(), || durable::hash_file(&path))?;
    let due = episode.description().audio_start(episode.len());
    if audio.rate != rate || audio.samples.len() != due {
        let found = format!("{} samples at {} hertz", audio.samples.len(), audio.rate);
        return Err(DataError::corrupt(&path, format!("{found} where {due} at {rate} were due")));
    }
    Ok(())
}

fn video(episode: &Episode) -> Result<()> {
    if episode.description().images != ImageEncoding::Video {
        return Ok(());
    }
    match episode.video_frame(0) {
        Some((path, _)) if path.is_file() => Ok(()),
        Some((path, _)) => Err(DataError::Missing { what: "the episode's video", path }),
        None => Err(DataError::Episode {
            episode: episode.id(),
            reason: "episodes.arrow names no video file for it".into(),
        }),
    }
}
