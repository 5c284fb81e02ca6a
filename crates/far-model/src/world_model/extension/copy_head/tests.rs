use super::*;
use crate::layer::Pass;
use crate::testing::normal;
use far_tensor::{Device, Parameters};

fn head(shape: LatentShape) -> (CopyHead, Parameters) {
    let mut builder = ArenaBuilder::new("copy");
    let head = CopyHead::new(&mut builder, 8, shape).unwrap();
    (head, builder.build(3))
}

/// With keys and queries that know nothing but their place, every token finds the mean of its own
/// place's latents, nearly.
#[test]
fn a_token_finds_its_own_place_at_once() {
    for (channels, grid, patch) in [(32, 8, 1), (128, 8, 1), (8, 16, 2)] {
        let shape = LatentShape { channels, height: grid, width: grid, patch };
        let table = places(shape, [0.0; SAID]).unwrap();
        let (tokens, width) = (shape.tokens(), shape.token_width());
        let code = |place: usize| &table.values()[place * width..(place + 1) * width];
        for place in [0, tokens / 2 + 1, tokens - 1] {
            let product = |other: usize| -> f64 {
                let pairs = code(place).iter().zip(code(other));
                pairs.map(|(a, b)| f64::from(a * b)).sum::<f64>() / (width as f64).sqrt()
            };
            let all: f64 = (0..tokens).map(|other| product(other).exp()).sum();
            let share = product(place).exp() / all;
            assert!(share > 0.985, "{share} of {tokens} tokens of width {width}");
        }
    }
}

#[test]
fn tokens_without_room_for_their_place_are_refused() {
    let shape = LatentShape { channels: 5, height: 2, width: 2, patch: 1 };
    let error = CopyHead::new(&mut ArenaBuilder::new("copy"), 8, shape).err().unwrap();
    assert!(error.to_string().contains("5 channels, 6 are needed"), "{error}");
}

/// Two frames, of ones and of twos, that lie so far from the goal and are superseded so often: what a
/// head takes of them that is fresh, but for so high rates at which trust is lost.
fn taken(away: [f32; 2], newer: [f32; 2], mask: Option<&Tensor>, rates: f32) -> Vec<f32> {
    let shape = LatentShape { channels: 8, height: 2, width: 2, patch: 1 };
    let (head, mut parameters) = head(shape);
    parameters.set(head.rate.bias, &[rates; 8]).unwrap();
    let mut tape = Tape::inference(&Device::cpu());
    let tensor = |values: Vec<f32>, sizes: [usize; 3]| Tensor::from_slice(&values, sizes);
    let inside = tensor(normal(2 * 4 * 8, "inside", 1), [2, 4, 8]).unwrap();
    let latents = tensor([[1.0; 32], [2.0; 32]].concat(), [2, 4, 8]).unwrap();
    let offered =
        head.offer(&mut Pass::new(&mut tape, &parameters), &inside, &latents, &away).unwrap();
    let offered = head
        .compare(&mut Pass::new(&mut tape, &parameters), &offered, &newer, &[0; VIEWS])
        .unwrap();
    let target = tensor(normal(4 * 8, "target", 1), [1, 4, 8]).unwrap();
    let noisy = tensor(normal(4 * 8, "noisy", 1), [1, 4, 8]).unwrap();
    let taken =
        head.take(&mut Pass::new(&mut tape, &parameters), &target, &noisy, &offered, mask).unwrap();
    taken.values().to_vec()
}

fn mean(values: &[f32]) -> f32 {
    values.iter().sum::<f32>() / values.len() as f32
}

/// A fresh network takes what it finds, and finds nothing in a frame that is hidden.
#[test]
fn open_gates_take_and_a_mask_hides_frames() {
    let both = taken([0.1; 2], [0.0; 2], None, 0.0);
    assert!(both.iter().all(|value| (1.0..=2.0).contains(value)));
    let mask = Tensor::from_slice(&[1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0], [1, 8]).unwrap();
    let first = taken([0.1; 2], [0.0; 2], Some(&mask), 0.0);
    assert!(first.iter().all(|value| (value - 1.0).abs() < 1e-5));
}

/// Of frames that are both there it takes the one that was seen nearer the goal, and of those from
/// as near the newer one.
#[test]
fn the_nearer_and_the_newer_frame_is_ahead() {
    let mean = |away, newer| mean(&taken(away, newer, None, 0.0));
    let [first, second] = [mean([0.0, 1.0], [0.0; 2]), mean([1.0, 0.0], [0.0; 2])];
    assert!(first < 1.05 && second > 1.95, "{first} {second}");
    let [first, second] = [mean([0.0; 2], [0.0, 1.0]), mean([0.0; 2], [1.0, 0.0])];
    assert!(first < 1.15 && second > 1.85, "{first} {second}");
}

/// What was seen from the goal itself is exact, however fast trust is lost.
#[test]
fn trust_is_lost_with_distance_alone() {
    let mask = Tensor::from_slice(&[1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0], [1, 8]).unwrap();
    let first = |away| mean(&taken([away, 0.0], [0.0; 2], Some(&mask), 2.0));
    assert!((first(0.0) - 1.0).abs() < 1e-5, "{}", first(0.0));
    let half = 2.0 / (1.0 + 1f32.exp());
    assert!((first(0.5) - half).abs() < 1e-5, "{} {half}", first(0.5));
}

/// A share takes of a view instead of what was found.
#[test]
fn looks_are_taken_by_their_shares() {
    let shape = LatentShape { channels: 8, height: 2, width: 2, patch: 1 };
    let (head, mut parameters) = head(shape);
    parameters.set(head.share.bias, &[0.0, 0.25, 0.5]).unwrap();
    let mut tape = Tape::inference(&Device::cpu());
    let inside = Tensor::from_slice(&normal(3 * 32, "inside", 1), [3, 4, 8]).unwrap();
    let latents = [[1.0; 32], [2.0; 32], [5.0; 32]].concat();
    let latents = Tensor::from_slice(&latents, [3, 4, 8]).unwrap();
    let offered =
        head.offer(&mut Pass::new(&mut tape, &parameters), &inside, &latents, &[0.0, 3.0, 3.0]);
    let offered = offered.unwrap();
    let views = [0, 1, 2];
    let offer =
        head.compare(&mut Pass::new(&mut tape, &parameters), &offered, &[0.0; 3], &views).unwrap();
    let target = Tensor::from_slice(&normal(32, "target", 1), [1, 4, 8]).unwrap();
    let taken =
        head.take(&mut Pass::new(&mut tape, &parameters), &target, &target, &offer, None).unwrap();
    // Of the first 1, of the second a quarter of what it has more, of the third half of that.
    let expected = 1.0 + 0.25 * 1.0 + 0.5 * 4.0;
    assert!((mean(taken.values()) - expected).abs() < 0.05, "{}", mean(taken.values()));
    assert_eq!(offer.shown.shape().extents(), [1, 4, 8]);
}
