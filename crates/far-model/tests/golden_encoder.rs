//! The retrieval encoder and its loss against PyTorch (`scripts/make_encoder_fixtures.py`).

#[path = "../../far-tensor/tests/fixture/mod.rs"]
mod fixture;

use far_model::{LatentShape, Pass, QueryVit, QueryVitConfig, Similarities, info_nce};
use far_tensor::{ArenaBuilder, Checkpoint, Device, Matching, Parameters, Tape};
use fixture::{Fixture, assert_near};
use std::path::Path;

const SHAPE: LatentShape = LatentShape { channels: 3, height: 4, width: 6, patch: 2 };

/// The network with the parameters that the fixture holds under a prefix.
fn network(prefix: &str) -> (QueryVit, Parameters) {
    let config = QueryVitConfig { depth: 2, width: 16, heads: 2, key: 8 };
    let mut builder = ArenaBuilder::new("encoder");
    let network = QueryVit::new(&mut builder, config, SHAPE, 0).unwrap();
    let mut parameters = builder.build(0);
    let path = format!("{}/tests/fixtures/query_vit.safetensors", env!("CARGO_MANIFEST_DIR"));
    let mut checkpoint = Checkpoint::open(Path::new(&path)).unwrap();
    checkpoint.load_parameters(prefix, &mut parameters, Matching::Strict).unwrap();
    (network, parameters)
}

#[test]
fn keys_queries_and_all_gradients_agree_with_pytorch() {
    let fixture = Fixture::load("query_vit");
    let (network, parameters) = network("");
    let (frames, actions) = (fixture.tensor("frames"), fixture.tensor("actions"));
    let mut tape = Tape::recording(&Device::cpu());
    let keys = network.forward(&mut Pass::new(&mut tape, &parameters), &frames, None).unwrap();
    let queries =
        network.forward(&mut Pass::new(&mut tape, &parameters), &frames, Some(&actions)).unwrap();
    assert_near("keys", keys.values(), fixture.tensor("keys").values(), 1e-5);
    assert_near("queries", queries.values(), fixture.tensor("queries").values(), 1e-5);

    let both = tape.concat(&[&keys, &queries], 0).unwrap();
    let weights = fixture.tensor("weights").reshape(*both.shape()).unwrap();
    let weighted = tape.multiply(&both, &weights).unwrap();
    let loss = tape.sum(&weighted).unwrap();
    let mut arena = parameters.gradients();
    tape.backward(&loss, 1.0, &mut [&mut arena]).unwrap();
    let found = parameters.with_values(arena.completed()).unwrap();
    let (_, expected) = self::network("gradient.");
    for (name, _) in parameters.named() {
        let [found, wanted] =
            [&found, &expected].map(|arena| arena.tensor(arena.find(name).unwrap()));
        if name.ends_with("attn.qkv.bias") {
            // A key's bias shifts all scores of a query alike: the true gradient is zero there.
            for part in [0..16, 32..48] {
                let (found, wanted) = (&found.values()[part.clone()], &wanted.values()[part]);
                assert_near(name, found, wanted, 5e-5);
            }
        } else {
            assert_near(name, found.values(), wanted.values(), 5e-5);
        }
    }
}

#[test]
fn info_nce_agrees_with_pytorch() {
    let fixture = Fixture::load("info_nce");
    let masks = ["present.positive", "present.negative"].map(|name| fixture.tensor(name));
    let mut tape = Tape::recording(&Device::cpu());
    let cosines = ["positives", "negatives"].map(|name| tape.variable(&fixture.tensor(name)));
    let [positives, negatives] =
        [0, 1].map(|side| Similarities { cosines: &cosines[side], present: &masks[side] });
    let loss = info_nce(&mut tape, positives, negatives).unwrap();
    assert_near("loss", loss.values(), fixture.tensor("loss").values(), 1e-5);
    let gradients = tape.backward(&loss, 1.0, &mut []).unwrap();
    for (side, cosines) in ["positives", "negatives"].into_iter().zip(&cosines) {
        let expected = fixture.tensor(&format!("gradient.{side}"));
        assert_near(side, gradients.of(cosines).unwrap(), expected.values(), 2e-5);
    }
}
