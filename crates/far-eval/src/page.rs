//! The page of a comparison: which rule recalled what, and what the future then showed.

use crate::{Clip, Comparison, Result};
use base64::Engine;
use far_data::Picture;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A self-contained page: the table of rules, and one clip to walk through.
///
/// # Errors
/// If a frame of the clip cannot be decoded.
pub fn page(comparison: &Comparison, clips: &[Clip], shown: usize, title: &str) -> Result<String> {
    let clip = &clips[shown];
    let episode = clip.episode();
    let mut pictures = BTreeMap::new();
    let mut questions = Vec::new();
    for (index, query) in clip.queries().iter().enumerate() {
        pictures.insert(query.current, encode(&episode.picture(query.current)?));
        pictures.insert(query.goal, encode(&episode.picture(query.goal)?));
        let mut rules = serde_json::Map::new();
        for rule in &comparison.rules {
            let ids = &rule.recalled[shown][index];
            for id in ids {
                if let std::collections::btree_map::Entry::Vacant(place) =
                    pictures.entry(id.index())
                {
                    place.insert(encode(&episode.picture(id.index())?));
                }
            }
            let frames: Vec<usize> = ids.iter().map(|id| id.index()).collect();
            let coverage = clip.coverage(*query, ids);
            rules.insert(rule.id.clone(), json!({ "frames": frames, "coverage": coverage }));
        }
        questions.push(json!({ "current": query.current, "goal": query.goal, "rules": rules }));
    }
    let poses: Vec<[f32; 3]> = episode
        .poses()
        .iter()
        .map(|pose| [pose.position[0], pose.position[1], pose.yaw()])
        .collect();
    let data = json!({
        "comparison": comparison,
        "boundary": episode.boundary(),
        "poses": poses,
        "questions": questions,
        "pictures": pictures.iter().map(|(frame, url)| (frame.to_string(), json!(url)))
            .collect::<serde_json::Map<String, Value>>(),
    });
    // A closing tag inside a string would end the script.
    let data = data.to_string().replace("</", "<\\/");
    let page = include_str!("page.html").replace("{{title}}", title);
    Ok(page.replace("{{data}}", &data))
}

fn encode(picture: &Picture) -> String {
    let bytes = base64::engine::general_purpose::STANDARD.encode(picture.to_png());
    format!("data:image/png;base64,{bytes}")
}
