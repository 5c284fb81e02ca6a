//! Where the rows and the video of each episode are.

use serde::Deserialize;

use super::super::{Parsed, json_lines};
use super::Info;
use crate::Result;
use crate::import::Source;
use crate::import::parquet_table::ParquetTable;

/// One line of `meta/episodes.jsonl`.
#[derive(Deserialize)]
struct EpisodeLine {
    episode_index: u64,
    length: u64,
}

/// Where an episode is.
pub(super) struct Episode {
    pub index: u64,
    pub length: u64,
    pub data: String,
    pub video: Option<String>,
    /// Seconds of the video before the episode begins.
    pub from: f64,
}

/// Episodes of version 2: one table and one video each.
pub(super) fn old_episodes(source: &Source, info: &Info, camera: &str) -> Result<Vec<Episode>> {
    let path = "meta/episodes.jsonl";
    let lines: Vec<EpisodeLine> =
        json_lines(&source.read(path)?).map_err(|reason| source.refuse(path, reason))?;
    let chunk = info.chunks_size.unwrap_or(1000).max(1);
    let episode = |line: EpisodeLine| {
        let values =
            [("episode_chunk", line.episode_index / chunk), ("episode_index", line.episode_index)];
        Episode {
            index: line.episode_index,
            length: line.length,
            data: fill(&info.data_path, &values, camera),
            video: info.video_path.as_ref().map(|path| fill(path, &values, camera)),
            from: 0.0,
        }
    };
    Ok(lines.into_iter().map(episode).collect())
}

/// Episodes of version 3: tables and videos that hold many.
pub(super) fn new_episodes(source: &Source, info: &Info, camera: &str) -> Result<Vec<Episode>> {
    let is_video = info.features.get(camera).is_some_and(|feature| feature.dtype == "video");
    let mut episodes = Vec::new();
    for path in
        source.files(4, ".parquet")?.iter().filter(|path| path.starts_with("meta/episodes/"))
    {
        let wrong = |reason| source.refuse(path, reason);
        let table = ParquetTable::open(source.read(path)?).map_err(wrong)?;
        let video = ["chunk_index", "file_index", "from_timestamp"]
            .map(|part| format!("videos/{camera}/{part}"));
        let mut columns = vec!["episode_index", "length", "data/chunk_index", "data/file_index"];
        if is_video {
            columns.extend(video.iter().map(String::as_str));
        }
        for row in table.rows(&columns).map_err(wrong)? {
            let row = row.map_err(wrong)?;
            let place = |chunk: &str, file: &str| -> Parsed<_> {
                Ok([("chunk_index", row.index(chunk)?), ("file_index", row.index(file)?)])
            };
            let data = place("data/chunk_index", "data/file_index").map_err(wrong)?;
            let (mut video_path, mut from) = (None, 0.0);
            if let Some(template) = info.video_path.as_ref().filter(|_| is_video) {
                video_path =
                    Some(fill(template, &place(&video[0], &video[1]).map_err(wrong)?, camera));
                from = row.number(&video[2]).map_err(wrong)?;
            }
            episodes.push(Episode {
                index: row.index("episode_index").map_err(wrong)?,
                length: row.index("length").map_err(wrong)?,
                data: fill(&info.data_path, &data, camera),
                video: video_path,
                from,
            });
        }
    }
    if episodes.is_empty() {
        return Err(source.refuse("meta/episodes", "it lists no episodes"));
    }
    episodes.sort_by_key(|episode| episode.index);
    Ok(episodes)
}

/// A path from a template such as `data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet`.
fn fill(template: &str, values: &[(&str, u64)], camera: &str) -> String {
    let mut path = template.replace("{video_key}", camera);
    for (name, value) in values {
        for width in [3, 6] {
            path = path.replace(&format!("{{{name}:0{width}d}}"), &format!("{value:0width$}"));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_filled() {
        let old = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4";
        let path = fill(old, &[("episode_chunk", 2), ("episode_index", 2017)], "front");
        assert_eq!(path, "videos/chunk-002/front/episode_002017.mp4");
    }
}
