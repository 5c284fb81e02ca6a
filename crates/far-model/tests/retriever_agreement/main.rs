//! A retriever in training and its exported file must be one retriever: the same scores, the same
//! weights, the same recalled memories, for any cues, sizes, gaps in the keys and pools.

mod draw;
mod option;

use draw::{Case, cases, config, memory, query, scores, three_cues, trainable};
use far_memory::selection::chunk_top_k_reference;
use far_memory::{
    Cue, Memory, Observation, Pool, Pose, Recall, RecallPolicy, RecallQuery, Schema, Scratch,
    Snapshot,
};
use far_model::{
    CandidatePools, CueWeighting, Pass, PoolDraw, RetrieverBatch, RetrieverScores,
    RetrieverTrainingConfig,
};
use far_tensor::{Device, Random, Tape};
use proptest::prelude::*;

/// What 1e-5 in raw scores may become in the fused ones: each cue is divided by its deviation.
fn amplified(found: &RetrieverScores, batch: &RetrieverBatch, example: usize) -> f32 {
    let (slots, cues) = (batch.slots(), found.raw.len());
    let row = example * slots..(example + 1) * slots;
    let by_cue = (0..cues).map(|cue| {
        let (raw, known) = (&found.raw[cue].values()[row.clone()], &found.standardized[cue]);
        // From s̃ = (s − μ)/(σ + δ) of two records: the divisor.
        let known = &known.values()[row.clone()];
        let spread = |values: &[f32]| {
            let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            largest - values.iter().copied().fold(f32::INFINITY, f32::min)
        };
        let scored: Vec<usize> = (0..slots).filter(|slot| known[*slot] != 0.0).collect();
        let raw: Vec<f32> = scored.iter().map(|slot| raw[*slot]).collect();
        let known: Vec<f32> = scored.iter().map(|slot| known[*slot]).collect();
        if raw.len() < 2 || spread(&raw) == 0.0 { 1.0 } else { spread(&known) / spread(&raw) }
    });
    1e-5 * (1.0 + by_cue.fold(0.0, f32::max))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn training_and_recall_agree(
        case in cases(),
        records in 1usize..300,
        slots in 1usize..9,
        weighting in prop_oneof![Just(CueWeighting::Learned), Just(CueWeighting::Detached)],
    ) {
        let training = RetrieverTrainingConfig { weighting, ..RetrieverTrainingConfig::default() };
        let (retriever, parameters) = trainable(&case, training);
        let exported = retriever.export(&parameters).expect("finite parameters");
        prop_assert_eq!(exported.config(), retriever.config());
        let snapshot = memory(records, case.seed);
        let queries: Vec<_> = (0..3).map(|number| query(records, number, case.seed)).collect();
        let examples: Vec<_> = queries.iter().map(|query| (query, &snapshot)).collect();
        let batch = RetrieverBatch::new(retriever.config(), &examples).expect("the queries fit");
        let found = scores(&retriever, &parameters, &batch);
        for (example, query) in queries.iter().enumerate() {
            let mut recall = Recall::new();
            exported
                .recall(&snapshot, query, slots, &mut Scratch::new(), &mut recall)
                .expect("the query fits");
            let cues = case.cues.len();
            for (cue, weight) in recall.weights().iter().enumerate() {
                let own = found.weights.values()[example * cues + cue];
                prop_assert!((own - weight).abs() < 1e-5, "weights {own} {weight}");
            }
            let row = example * batch.slots()..(example + 1) * batch.slots();
            let mask = &batch.mask().values()[row.clone()];
            let fused: Vec<f32> = found.fused.values()[row.clone()]
                .iter()
                .zip(mask)
                .map(|(score, mask)| if *mask == 0.0 { f32::NEG_INFINITY } else { *score })
                .collect();
            let bound = amplified(&found, &batch, example);
            let chosen = chunk_top_k_reference(&fused, case.chunk_size, slots);
            prop_assert_eq!(recall.len(), chosen.len());
            let pool = snapshot.pool(&query.pool, query.pool_cap).expect("it fits");
            for (recalled, chosen) in recall.iter().zip(chosen) {
                let position = pool.iter().position(|id| id == recalled.id).expect("in the pool");
                let own = fused[position];
                prop_assert!((own - recalled.score).abs() <= bound, "fused {own} {recalled:?}");
                if position != chosen.position {
                    prop_assert!((own - chosen.score).abs() <= 2.0 * bound, "{chosen:?} {recalled:?}");
                }
                for cue in 0..cues {
                    let (raw, known) = (&found.raw[cue], &found.standardized[cue]);
                    let place = row.start + position;
                    if recalled.raw[cue].is_nan() {
                        prop_assert_eq!(known.values()[place], 0.0);
                    } else {
                        let (own, other) = (raw.values()[place], recalled.raw[cue]);
                        prop_assert!((own - other).abs() <= 1e-5, "raw {own} {other}");
                        let (own, other) = (known.values()[place], recalled.standardized[cue]);
                        prop_assert!((own - other).abs() <= bound, "standardized {own} {other}");
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// What training says of the candidates for a slot is what recall fills the slot by.
    #[test]
    fn training_and_recall_agree_on_sets(
        case in cases(),
        records in 6usize..150,
        taken in 0usize..3,
        abstains in any::<bool>(),
    ) {
        let case = Case { sets: Some(abstains), ..case };
        let (retriever, parameters) = trainable(&case, RetrieverTrainingConfig::default());
        let exported = retriever.export(&parameters).expect("finite parameters");
        let snapshot = memory(records, case.seed);
        let query = query(records, 1, case.seed);
        let filled = exported.clone().without_abstaining();
        let mut recall = Recall::new();
        filled.recall(&snapshot, &query, taken + 3, &mut Scratch::new(), &mut recall).expect("fits");
        prop_assume!(recall.len() > taken + 1);
        let pool = snapshot.pool(&query.pool, query.pool_cap).expect("it fits");
        let draw = PoolDraw { chunk_size: 4, extra: 2, competing: 3, empty: abstains, foreign: false };
        let mut random = Random::stream(case.seed, "candidates", 0);
        let before: Vec<_> = recall.ids().take(taken).collect();
        let mut pools =
            CandidatePools::draw(&recall, &before, &pool, &draw, &mut random).expect("it fits");
        pools.compare(retriever.config(), &query, &snapshot).expect("it fits");
        prop_assert_eq!(pools.taken.len(), taken);
        prop_assert!(pools.ids.iter().all(|id| !pools.taken.contains(id)));
        let examples = [(&query, &snapshot)];
        let batch = RetrieverBatch::new(retriever.config(), &examples).expect("it fits");
        let found = scores(&retriever, &parameters, &batch);
        let slot = found.slot_scores(&pools, 0);
        let bound = 4.0 * amplified(&found, &batch, 0) + 1e-4;
        // The memory that recall put into the slot has the score that training gives it.
        let next = recall.get(taken).expect("one more");
        prop_assert!((slot[0] - next.score).abs() <= bound, "{} {next:?}", slot[0]);
        // What recall said of a memory in its slot is what training says, be it taken or passed over.
        let worths = found.slot_worths(&pools, 0);
        prop_assert_eq!(worths.is_some(), abstains);
        let mut kept = Recall::new();
        exported.recall(&snapshot, &query, taken + 1, &mut Scratch::new(), &mut kept).expect("fits");
        let asked = kept.iter().filter(|kept| kept.rank == taken);
        let asked: Vec<_> = asked.map(|kept| (kept.id, kept.worth)).collect();
        if kept.ids().take(taken).eq(before.iter().copied()) {
            for (id, worth) in asked {
                let place = pools.ids.iter().position(|own| *own == id);
                if let (Some(place), Some(worths)) = (place, &worths) {
                    let (own, worth) = (worths[place], worth.expect("it abstains"));
                    prop_assert!((own - worth).abs() <= 1e-3 * (1.0 + own.abs()), "{own} {worth}");
                }
            }
        }
        if taken == 0 {
            for (id, worth) in kept.passed_over() {
                let place = pools.ids.iter().position(|own| own == id);
                if let (Some(place), Some(worths)) = (place, &worths) {
                    let own = worths[place];
                    prop_assert!((own - worth).abs() <= 1e-3 * (1.0 + own.abs()), "{own} {worth}");
                }
            }
        }
    }
}

#[test]
fn names_and_shapes_are_those_of_the_file() {
    let with_sets = Case { sets: Some(true), ..three_cues() };
    [three_cues(), with_sets].iter().for_each(same_names);
}

fn same_names(case: &Case) {
    let (retriever, parameters) = trainable(case, RetrieverTrainingConfig::default());
    let mut stored: Vec<_> = parameters
        .stored()
        .map(|(name, shape, _)| (name.to_owned(), shape.extents().to_vec()))
        .collect();
    let mut expected = retriever.config().tensors();
    stored.sort();
    expected.sort();
    assert_eq!(stored, expected);
}

#[test]
fn empty_pools_and_foreign_batches_are_handled() {
    let case = three_cues();
    let (retriever, parameters) = trainable(&case, RetrieverTrainingConfig::default());
    let snapshot = memory(6, 5);
    let empty = query(6, 1, 5).with_pool(Pool::Range(2..2));
    let full = query(6, 2, 5).with_pool(Pool::All);
    let examples = [(&empty, &snapshot), (&full, &snapshot)];
    let batch = RetrieverBatch::new(retriever.config(), &examples).expect("they fit");
    let found = scores(&retriever, &parameters, &batch);
    assert_eq!(batch.mask().values()[..6], [0.0; 6]);
    assert_eq!(found.fused.values()[..6], [0.0; 6]);
    assert!(found.fused.values().iter().all(|score| score.is_finite()));
    let only = RetrieverBatch::new(retriever.config(), &examples[..1]).expect("it fits");
    assert_eq!((only.examples(), only.slots()), (1, 1));

    assert!(RetrieverBatch::new(retriever.config(), &[]).is_err());
    let other = config(&Case { cues: vec![0], ..case });
    let foreign = RetrieverBatch::new(&other, &examples).expect("they fit");
    let mut tape = Tape::inference(&Device::cpu());
    assert!(retriever.scores(&mut Pass::new(&mut tape, &parameters), &foreign).is_err());
}

#[test]
fn a_bad_key_excludes_its_memory_only_where_the_cue_counts() {
    let case = Case { cues: vec![0, 1], ..three_cues() };
    let config = config(&case);
    let schema = Schema::new(vec![Cue::metadata("meta"), Cue::key("vision", 12)]).expect("valid");
    let mut memory = Memory::new(schema);
    let mut append = |key: [f32; 12]| {
        let observation = Observation::new(0.0, Pose::identity()).with_key("vision", &key);
        memory.append(&observation).expect("a valid observation");
        memory.snapshot()
    };
    let spoiled = append([f32::NAN; 12]);
    let mixed = append([1.0; 12]);
    let plain = RecallQuery::new(1.0, Pose::identity(), Pose::identity());
    let seeing = plain.clone().with_key("vision", &[0.5; 12]);
    let mask = |query: &RecallQuery, snapshot: &Snapshot| {
        let batch = RetrieverBatch::new(&config, &[(query, snapshot)]).expect("it fits");
        batch.mask().values().to_vec()
    };
    assert_eq!(mask(&seeing, &mixed), [0.0, 1.0]);
    assert_eq!(mask(&plain, &mixed), [1.0, 1.0]);
    assert_eq!(mask(&seeing, &spoiled), [1.0]);
}
