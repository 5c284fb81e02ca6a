use super::*;

fn frames(values: &[f64]) -> Vec<FrameValues> {
    values.iter().map(|value| [Some(*value), None, Some(0.5), None, Some(0.25)]).collect()
}

#[test]
fn tiers_are_told_apart_where_there_are_several() {
    let roll = |tiers: Vec<Option<u32>>| {
        let mut tally = Tally::new(["a", "b"].into_iter()).with_tiers(tiers);
        for clip in 0..4 {
            tally.rollout("a", clip, &frames(&[f64::from(clip as u32)]), 1);
            tally.rollout("b", clip, &frames(&[1.0]), 1);
        }
        let pooled = Pooled::new(vec![&tally], 0);
        (pooled.arms(), pooled.paired())
    };
    let (arms, paired) = roll(vec![Some(5), Some(15), Some(5), None]);
    assert_eq!(arms["a"]["psnr"].mean, 1.5);
    assert_eq!(arms["a"]["psnr_tier_5"].mean, 1.0);
    assert_eq!(arms["a"]["psnr_tier_15"].mean, 1.0);
    assert_eq!(paired["a"]["b"]["psnr_tier_5"].mean, 0.0);
    let difference = paired["a"]["b"]["psnr_tier_5"];
    assert_eq!((difference.lo, difference.hi), (-1.0, 1.0));
    for tiers in [vec![None; 4], vec![Some(5); 4], vec![Some(5), None, None, None]] {
        assert!(roll(tiers).0["a"].keys().all(|metric| !metric.contains("tier")));
    }
}

#[test]
fn closure_is_the_last_twentieth_of_a_whole_return() {
    let mut tally = Tally::new(["unheard"].into_iter());
    let values: Vec<f64> = (0..40).map(f64::from).collect();
    tally.rollout("whole", 0, &frames(&values), 40);
    tally.rollout("cut", 0, &frames(&values[..30]), 40);
    tally.rollout("short", 0, &frames(&values[..3]), 3);
    let arms = Pooled::new(vec![&tally], 0).arms();
    assert_eq!(arms["whole"]["psnr"].mean, 19.5);
    assert_eq!(arms["whole"]["psnr_closure"].mean, 38.5);
    assert_eq!(arms["short"]["psnr_closure"].mean, 2.0);
    assert_eq!(arms["whole"]["ssim_closure"].mean, 0.5);
    assert!(!arms["cut"].contains_key("psnr_closure"));
    assert!(!arms["whole"].contains_key("lpips"));
    assert_eq!(arms["whole"]["dreamsim_closure"].mean, 0.25);
    assert!(arms["unheard"].is_empty());
}

/// The mean of the bins is the mean of the frames, whatever their number.
#[test]
fn bins_share_frames_by_the_time_they_fill() {
    for count in [1, 3, 19, 20, 21, 57] {
        let values: Vec<f64> = (0..count).map(|n| f64::from(n * n % 7)).collect();
        let bins = binned(&values, values.len()).map(|bin| bin.expect("all are filled"));
        assert!((mean(&bins) - mean(&values)).abs() < 1e-9, "{count}");
    }
    assert_eq!(binned(&[1.0, 3.0], 2)[9..11], [Some(1.0), Some(3.0)]);
    // Three frames of four fill fifteen bins of twenty.
    assert_eq!(binned(&[1.0; 3], 4).iter().flatten().count(), 15);
}

#[test]
fn probes_bring_their_rows_and_their_descriptions() {
    let mut tally = Tally::new(["a", "b"].into_iter());
    tally.one_step("a", 0, &[20.0]);
    let probe = |id: &str| Measured::new(Metric::share(id, "Right"));
    let mut right = probe("right");
    // Rows of a probe may be more than there are clips.
    right.share("a", 3, 1, 2);
    right.share("a", 7, 2, 2);
    right.share("b", 7, 1, 2);
    tally.take(right).unwrap();
    tally.take(probe("never_asked")).unwrap();
    let pooled = Pooled::new(vec![&tally], 0);
    assert_eq!(pooled.arms()["a"]["right"].mean, 0.75);
    assert_eq!(pooled.paired()["a"]["b"]["right"].mean, 0.5);
    let ids: Vec<String> = tally.descriptions().into_iter().map(|metric| metric.id).collect();
    assert_eq!(ids, ["one_step_psnr", "right"]);
    for id in ["right", "one_step_psnr"] {
        let refused = tally.take(probe(id)).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("metric {id}: another probe")), "{refused}");
    }
}

#[test]
fn recall_quality_is_a_ratio_of_sums_and_so_are_its_differences() {
    let mut tally = Tally::new([].into_iter());
    for (clip, oracle, good, poor) in [(0, 4.0, 4.0, 1.0), (1, 1.0, 0.0, 0.0)] {
        tally.oracle_gain(clip, oracle);
        tally.recall_gain("good", clip, good);
        tally.recall_gain("poor", clip, poor);
    }
    let pooled = Pooled::new(vec![&tally], 0);
    assert_eq!(pooled.arms()["good"][RECALL_QUALITY].mean, 0.8);
    assert_eq!(pooled.arms()["poor"][RECALL_QUALITY].mean, 0.2);
    let difference = pooled.paired()["good"]["poor"][RECALL_QUALITY].mean;
    assert!((difference - 0.6).abs() < 1e-12);
}

#[test]
fn differences_count_clips_that_both_have() {
    let mut tally = Tally::new([].into_iter());
    tally.one_step("left", 0, &[0.0, 2.0]);
    tally.one_step("left", 1, &[5.0]);
    tally.one_step("right", 0, &[2.0]);
    let pooled = Pooled::new(vec![&tally], 0);
    assert_eq!(pooled.paired()["left"]["right"]["one_step_psnr"].mean, -1.0);
    assert_eq!(pooled.arms()["left"]["one_step_psnr"].mean, 3.0);
}
