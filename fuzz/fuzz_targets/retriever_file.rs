//! Any bytes are either refused or give a retriever that writes itself back and recalls.

#![no_main]

use far_memory::{
    Cue, CueKind, KeyPrecision, Memory, Observation, Pose, Recall, RecallPolicy, RecallQuery,
    Retriever, Schema, ScorerConfig, Scratch,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(retriever) = Retriever::from_bytes(data) else { return };
    assert_eq!(Retriever::from_bytes(&retriever.to_bytes()).expect("its own file"), retriever);
    let mut cues = Vec::new();
    for cue in &retriever.config().cues {
        cues.push(match cue.scorer {
            ScorerConfig::Metadata { .. } => Cue::metadata(&cue.name),
            ScorerConfig::Cosine { dimension, .. } => {
                let kind = CueKind::Key { dimension, precision: KeyPrecision::F32 };
                Cue { name: cue.name.clone(), kind }
            }
        });
    }
    let mut memory = Memory::new(Schema::new(cues).expect("a checked configuration"));
    memory.append(&Observation::new(0.0, Pose::identity())).expect("a valid observation");
    let query = RecallQuery::new(1.0, Pose::identity(), Pose::identity());
    let mut recall = Recall::new();
    retriever
        .recall(&memory.snapshot(), &query, 1, &mut Scratch::new(), &mut recall)
        .expect("the memory fits");
});
