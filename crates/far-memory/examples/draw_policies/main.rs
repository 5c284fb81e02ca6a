//! Draws what every recall policy selects in the same scene.
//!
//! ```text
//! cargo run --release -p far-memory --example draw_policies -- docs/pictures/policies
//! ```

mod drawing;
mod scene;

use std::path::PathBuf;

use far_memory::policy::{PolicyConfig, RuleConfig};
use far_memory::{Recall, RecallPolicy, Retriever, RetrieverConfig, Scratch};
use scene::Scene;

const SLOTS: usize = 6;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("give the folder for the pictures")?);
    std::fs::create_dir_all(&folder)?;
    let scene = scene::build()?;
    for id in RuleConfig::IDS {
        let mut recall = Recall::new();
        let policy = policy(id, &scene)?;
        policy.recall(&scene.snapshot, &scene.query, SLOTS, &mut Scratch::new(), &mut recall)?;
        let ids: Vec<String> = recall.ids().map(|id| id.to_string()).collect();
        println!("{id:20} {}", ids.join(" "));
        let picture = drawing::draw(&scene, id, &caption(id, policy.as_ref()), &recall);
        std::fs::write(folder.join(format!("{id}.svg")), picture)?;
    }
    Ok(())
}

fn policy(id: &str, scene: &Scene) -> Result<Box<dyn RecallPolicy>, far_memory::Error> {
    let mut config = PolicyConfig::from_id(id)?.with_camera(&scene::camera(), scene::REACH);
    match &mut config.rule {
        RuleConfig::Far(_) => return Ok(Box::new(untrained()?)),
        RuleConfig::Oracle(oracle) => oracle.utilities.clone_from(&scene.utilities),
        _ => {}
    }
    config.build()
}

/// FAR's pipeline before training: the vision cue alone, without an adapter.
fn untrained() -> Result<Retriever, far_memory::Error> {
    let mut config = RetrieverConfig::meta_and_vision(scene::DIMENSION);
    config.cues.retain(|cue| cue.name == "vision");
    let shapes = config.tensors();
    let zeros = shapes.into_iter().map(|(name, shape)| {
        let count = shape.iter().product();
        (name, (shape, vec![0.0; count]))
    });
    let parameters = zeros.collect();
    Retriever::from_tensors(config, parameters)
}

/// What stands below a picture: what the policy recalls, or what is special about the picture.
fn caption(id: &str, policy: &dyn RecallPolicy) -> String {
    match id {
        "far" => "learned cues, fused; here before training, vision alone".to_owned(),
        "oracle" => "by the share of the coming view it really shows".to_owned(),
        _ => policy.summary(),
    }
}
