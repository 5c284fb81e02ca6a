//! What a person would check by listening.

use super::*;
use far_memory::Pose;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::f32::consts::{FRAC_PI_2, PI, TAU};
use std::sync::Arc;

const FRAME: usize = 1600;

/// An empty hall of 40 m × 40 m.
fn hall() -> Floor {
    Floor::new(42, 42, 1.0, |x, y| x == 0 || y == 0 || x == 41 || y == 41)
}

/// Two rooms whose doors both open to a corridor north of them; the wall between is closed.
const ROOMS: &str = "
    #################
    #...............#
    #...............#
    ####..#####..####
    #......#........#
    #......#........#
    #......#........#
    #......#........#
    #......#........#
    #################";

/// Noise with little above 6 kHz, where interpolation between samples is not exact.
fn broadband() -> Arc<Clip> {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let white: Vec<f32> = (0..CLIP_SAMPLES).map(|_| random.random_range(-0.2..0.2)).collect();
    let at = |i: usize| white[i % CLIP_SAMPLES];
    let soft = (0..CLIP_SAMPLES).map(|i| 0.25 * at(i) + 0.5 * at(i + 1) + 0.25 * at(i + 2));
    Arc::new(Clip::from_samples(ClipKind::Water, 0, soft.collect()))
}

fn scape(floor: Floor, model: Model, at: [f32; 2]) -> Soundscape {
    let source = Source { position: [at[0], at[1], 1.5], clip: broadband(), gain: 1.0 };
    Soundscape::new(floor, 2.5, model, vec![source])
}

fn anechoic() -> Model {
    Model { reflectance: Reflectance::NONE, ..Model::default() }
}

fn pose(at: [f32; 2], yaw: f32) -> Pose {
    Pose::from_yaw_pitch([at[0], at[1], 1.5], yaw, 0.0)
}

/// Left and right samples of a second at one pose.
fn listen(scape: &Soundscape, pose: Pose) -> [Vec<f32>; 2] {
    hear(scape, &[pose; 10])
}

fn hear(scape: &Soundscape, poses: &[Pose]) -> [Vec<f32>; 2] {
    let mut out = Vec::new();
    scape.listener(FRAME).hear(poses, &mut out);
    assert_eq!(out.len(), FRAME * poses.len());
    [0, 1].map(|ear| out.iter().map(|pair| pair[ear]).collect())
}

fn level(samples: &[f32]) -> f32 {
    let power = samples.iter().map(|x| x * x).sum::<f32>() / samples.len() as f32;
    10.0 * power.max(1e-12).log10()
}

/// Power above about 2 kHz relative to all, in decibels.
fn brightness(samples: &[f32]) -> f32 {
    let mut high = samples.to_vec();
    for _ in 0..3 {
        let mut low = 0.0;
        for x in &mut high {
            low += (1.0 - (-TAU * 2000.0 / 16e3f32).exp()) * (*x - low);
            *x -= low;
        }
    }
    level(&high) - level(samples)
}

/// By how many samples `right` lags behind `left`, at the peak of their correlation.
fn lag([left, right]: &[Vec<f32>; 2]) -> i32 {
    let correlation = |lag: i32| -> f32 {
        (20..left.len() as i32 - 20).map(|i| left[i as usize] * right[(i + lag) as usize]).sum()
    };
    (-16..=16).max_by(|&a, &b| correlation(a).total_cmp(&correlation(b))).unwrap()
}

#[test]
fn a_source_on_the_left_is_earlier_and_louder_on_the_left() {
    let scape = scape(hall(), Model::default(), [20.5, 23.5]);
    // Facing east, north is on the left; 656 µs are 10.5 samples.
    let heard = listen(&scape, pose([20.5, 20.5], 0.0));
    assert!(level(&heard[0]) > level(&heard[1]) + 6.0);
    assert!((9..=11).contains(&lag(&heard)), "{}", lag(&heard));
    // Facing west the same source is on the right, mirrored.
    let turned = listen(&scape, pose([20.5, 20.5], PI));
    assert!((level(&turned[1]) - level(&heard[0])).abs() < 0.5);
    assert_eq!(lag(&turned), -lag(&heard));
    // Facing it, both ears agree.
    let facing = listen(&scape, pose([20.5, 20.5], FRAC_PI_2));
    assert!((level(&facing[0]) - level(&facing[1])).abs() < 0.2 && lag(&facing) == 0);
}

#[test]
fn a_wall_between_makes_it_duller_and_quieter() {
    let open = "#########\n#.......#\n#.......#\n#.......#\n#.......#\n#########";
    let wall = "#########\n#.......#\n#...#...#\n#...#...#\n#...#...#\n#########";
    let [open, wall] = [open, wall].map(|drawing| {
        let scape = scape(Floor::from_text(drawing, 1.0), Model::default(), [6.5, 1.5]);
        listen(&scape, pose([2.5, 1.5], 0.0))
    });
    for ear in 0..2 {
        let (quieter, duller) = (
            level(&open[ear]) - level(&wall[ear]),
            brightness(&open[ear]) - brightness(&wall[ear]),
        );
        assert!(quieter > 6.0 && duller > 3.0, "ear {ear}: {quieter} dB, {duller} dB");
    }
}

#[test]
fn rooms_joined_by_a_corridor_are_heard_through_the_door() {
    let floor = Floor::from_text(ROOMS, 0.5);
    // A meter apart on both sides of the closed wall.
    let (source, listener) = ([4.3, 1.0], [3.2, 1.0]);
    let scape = scape(floor, Model::default(), source);
    let path = scape.path(0, listener).unwrap();
    assert!(path.length > 6.0 && path.bend > 2.0, "{path:?}");
    assert!(path.direction[1] > 0.9, "heard from the door in the north: {path:?}");
    // Facing east, the wall with the source behind it is ahead and the door is on the left.
    let heard = listen(&scape, pose(listener, 0.0));
    assert!(lag(&heard) >= 8, "{}", lag(&heard));
    // At the door it is louder than beside the wall, though farther in a straight line.
    let at_door = listen(&scape, pose([2.5, 3.4], 0.0));
    assert!(level(&at_door[0]) > level(&heard[0]) + 3.0);
}

#[test]
fn level_falls_by_six_decibels_per_doubling_of_distance() {
    let scape = scape(hall(), anechoic(), [20.5, 20.5]);
    let at = |meters: f32| level(&listen(&scape, pose([20.5, 20.5 + meters], FRAC_PI_2))[0]);
    let one = at(1.0);
    for meters in [1.5f32, 2.0, 4.0, 8.0, 16.0] {
        let model = -20.0 * meters.log10();
        assert!((at(meters) - one - model).abs() < 0.3, "{meters} m: {}", at(meters) - one);
    }
    assert!((at(0.2) - one).abs() < 0.3, "no louder within the reference distance");
}

#[test]
fn bent_paths_follow_the_model_of_bending() {
    let floor = Floor::from_text(ROOMS, 0.5);
    let tone: Vec<f32> = (0..CLIP_SAMPLES).map(|i| (TAU * i as f32 / 256.0).sin()).collect();
    let clip = Arc::new(Clip::from_samples(ClipKind::Fridge, 0, tone));
    let source = Source { position: [1.0, 0.8, 1.5], clip, gain: 0.2 };
    let scape = Soundscape::new(floor, 2.5, anechoic(), vec![source]);
    // At 62.5 Hz neither head nor low-pass matter: what is left is distance and bending.
    let modeled = |at: [f32; 2]| {
        let path = scape.path(0, at).unwrap();
        20.0 * (Bending::default().gain(path.bend) / path.length).log10()
    };
    let heard = |at: [f32; 2]| level(&listen(&scape, pose(at, 0.3))[0]);
    let (near, far) = ([2.0, 2.0], [6.5, 1.5]);
    assert!(scape.path(0, far).unwrap().bend > 1.5);
    assert!(((heard(near) - heard(far)) - (modeled(near) - modeled(far))).abs() < 0.5);
}

#[test]
fn rooms_of_different_size_sound_different() {
    let room = |side: usize| {
        let floor =
            Floor::new(side + 2, side + 2, 1.0, |x, y| x.min(y) == 0 || x.max(y) == side + 1);
        let scape = scape(floor, Model::default(), [2.5, 1.5]);
        listen(&scape, pose([1.5, 1.5], FRAC_PI_2))
    };
    let (small, large) = (room(3), room(20));
    let difference: Vec<f32> = small[0].iter().zip(&large[0]).map(|(a, b)| a - b).collect();
    let relative = level(&difference) - level(&small[0]);
    assert!(relative > -20.0, "{relative} dB");
}

#[test]
fn what_a_phase_sounds_like_does_not_depend_on_what_came_before() {
    let scape = scape(Floor::from_text(ROOMS, 0.5), Model::default(), [4.3, 1.0]);
    let walk: Vec<Pose> =
        (0..30).map(|i| pose([1.0 + 0.08 * i as f32, 1.0], 0.1 * i as f32)).collect();
    let (mut after, mut alone) = (Vec::new(), Vec::new());
    let mut listener = scape.listener(FRAME);
    listener.hear(&walk[10..], &mut after);
    after.clear();
    listener.hear(&walk, &mut after);
    scape.listener(FRAME).hear(&walk, &mut alone);
    assert_eq!(after, alone);
    assert_eq!(alone[0], [0.0; 2], "fades in from silence");
}

#[test]
fn walking_through_doors_and_turning_makes_no_clicks() {
    let floor = Floor::from_text(ROOMS, 0.5);
    // A slow tone has small steps between samples, so that any click stands out.
    let tone: Vec<f32> = (0..CLIP_SAMPLES).map(|i| (TAU * i as f32 / 64.0).sin()).collect();
    let clip = Arc::new(Clip::from_samples(ClipKind::Fan, 0, tone));
    let source = Source { position: [6.0, 1.0, 1.2], clip, gain: 0.2 };
    let scape = Soundscape::new(floor, 2.5, Model::default(), vec![source]);
    let mut walk = Vec::new();
    for (from, to) in [([1.0, 1.0], [2.5, 2.5]), ([2.5, 2.5], [2.5, 4.0]), ([2.5, 4.0], [6.0, 4.0])]
    {
        for i in 0..20 {
            let share = i as f32 / 20.0;
            let at: [f32; 2] = std::array::from_fn(|k| from[k] + share * (to[k] - from[k]));
            walk.push(pose(at, 0.25 * walk.len() as f32));
        }
    }
    for ear in hear(&scape, &walk) {
        let loudest = ear.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        // A sine of amplitude a moves by at most 2π a / 64 per sample.
        let steepest = ear.windows(2).fold(0.0f32, |m, pair| m.max((pair[1] - pair[0]).abs()));
        assert!(steepest < 1.3 * TAU / 64.0 * loudest, "{steepest} {loudest}");
    }
}

#[test]
fn a_source_or_a_head_in_a_wall_is_silent() {
    let scape_in_wall = scape(Floor::from_text(ROOMS, 0.5), Model::default(), [3.75, 1.0]);
    assert!(listen(&scape_in_wall, pose([1.0, 1.0], 0.0))[0].iter().all(|&x| x == 0.0));
    let scape = scape(Floor::from_text(ROOMS, 0.5), Model::default(), [4.3, 1.0]);
    assert!(listen(&scape, pose([3.75, 1.0], 0.0))[1].iter().all(|&x| x == 0.0));
    assert!(scape.path(1, [1.0, 1.0]).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn several_sources_sound_like_their_sum(
        places in proptest::array::uniform3((1.0f32..7.0, 0.8f32..1.8)), yaw in -3.0f32..3.0,
    ) {
        let floor = Floor::from_text(ROOMS, 0.5);
        let kinds = [ClipKind::Clock, ClipKind::Babble, ClipKind::Fan];
        let sources: Vec<Source> = places.iter().zip(kinds).map(|(&(x, y), kind)| Source {
            position: [x, y, 1.0], clip: Arc::new(Clip::synthesize(kind, 0)), gain: 0.5,
        }).collect();
        let poses: Vec<Pose> = (0..4).map(|i| pose([1.0 + 0.1 * i as f32, 4.2], yaw)).collect();
        let together = hear(&Soundscape::new(floor.clone(), 2.5, Model::default(), sources.clone()), &poses);
        let mut sum = vec![0.0; together[0].len()];
        for source in sources {
            let alone = hear(&Soundscape::new(floor.clone(), 2.5, Model::default(), vec![source]), &poses);
            sum.iter_mut().zip(&alone[0]).for_each(|(sum, x)| *sum += x);
        }
        for (a, b) in together[0].iter().zip(&sum) {
            prop_assert!((a - b).abs() < 1e-5);
        }
    }
}
