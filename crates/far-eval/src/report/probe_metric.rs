//! Names of probes for people: shares of right answers, and weights of cues.

use super::metric::{Better, Metric, MetricTable};

/// Beginning of a key, name, larger is better, note; in the order in which they are shown. What
/// follows the beginning says of which part.
const PROBES: [(&str, &str, Better, &str); 10] = [
    (
        "state_surface",
        "State, surface",
        Better::Higher,
        "things moved in plain sight: the rollout is nearer to how they are than the outdated view is",
    ),
    (
        "state_container",
        "State, container",
        Better::Higher,
        "insides of containers: the rollout is nearer to how they are than the outdated view is",
    ),
    (
        "state",
        "State",
        Better::Higher,
        "the rollout is nearer to how things are than the outdated view is",
    ),
    (
        "counterfactual",
        "Counterfactual",
        Better::Higher,
        "pairs of the same present and different histories: each prediction is nearer to its own truth",
    ),
    (
        "both_ends",
        "Both ends",
        Better::Higher,
        "trajectories where the second agent is generated at its true end and not at the other",
    ),
    (
        "predicted_ends",
        "Predicted ends",
        Better::Higher,
        "trajectories whose predicted states of the second agent are right at both ends",
    ),
    (
        "crossing_recalled",
        "Crossing recalled",
        Better::Higher,
        "questions about an end for which a memory of the last crossing was recalled",
    ),
    (
        "detector_recall",
        "Detector recall",
        Better::Higher,
        "true views of the second agent that the detector finds",
    ),
    (
        "detector_false_positive",
        "Detector false alarms",
        Better::Lower,
        "true views without the second agent in which the detector finds it",
    ),
    ("weight", "λ", Better::Neither, "mean weight of the cue"),
];

/// Endings of keys and what they mean.
const PARTS: [(&str, &str, &str); 11] = [
    ("recalled", "recalled", "here whether memories that show them so were recalled"),
    ("now", "now", "and nearer to how they are than to how they were"),
    (
        "outdated",
        "outdated",
        "here of the outdated view itself, encoded and decoded: what luck scores",
    ),
    ("small", "small", "small changes, about a third of all"),
    ("medium", "medium", "medium changes, about a third of all"),
    ("large", "large", "large changes, about a third of all"),
    ("blocked", "blocked", "where the line of sight to the goal is blocked"),
    ("clear", "clear", "where the line of sight to the goal is clear"),
    ("rise", "blocked − clear", "how much larger it is where the line of sight is blocked"),
    ("static", "nobody", "trajectories without a second agent, where neither end may show one"),
    ("pair", "pairs", "pairs of histories that differ in the last crossing: both must be right"),
];

/// Parts of keys that say what is behind an answer rather than whether it is right.
const DETAILS: [&str; 5] = ["recalled", "now", "outdated", "detector", "weight"];
/// Endings that tell changes apart by how large they are.
const SIZES: [&str; 3] = ["small", "medium", "large"];

/// Where a probe stands among the probes: by its beginning, then by size.
pub(super) fn place(id: &str) -> Option<usize> {
    let size = SIZES.iter().position(|size| id.split('_').any(|part| part == *size));
    Some(beginning(id)? * (SIZES.len() + 1) + size.map_or(0, |size| size + 1))
}

fn beginning(id: &str) -> Option<usize> {
    PROBES.iter().position(|probe| rest(id, probe.0).is_some())
}

/// How a probe is shown; `None` for a key that is none.
pub(super) fn of(id: &str) -> Option<Metric> {
    let (start, name, better, note) = PROBES[beginning(id)?];
    let parts: Vec<&str> = rest(id, start)?.split('_').filter(|part| !part.is_empty()).collect();
    let weight = start == "weight";
    let (mut label, mut note) = (name.to_owned(), note.to_owned());
    let mut parts = parts.into_iter();
    if weight {
        let cue = parts.next().unwrap_or("cue");
        label = format!("λ {cue}");
        note = format!("mean weight of the cue `{cue}`");
    }
    for part in parts {
        let known = PARTS.iter().find(|known| known.0 == part);
        let (short, long) = match known {
            Some((_, short, long)) => (*short, *long),
            None if part == "mse" => ("by squared error", "nearness by squared error, not LPIPS"),
            None => (part, ""),
        };
        label = format!("{label}, {short}");
        note = if long.is_empty() { note } else { format!("{note}; {long}") };
    }
    let (unit, factor, digits) = if weight { ("", 1.0, 2) } else { ("%", 100.0, 1) };
    let has = |wanted: &[&str]| id.split('_').any(|part| wanted.contains(&part));
    let table = if has(&SIZES) {
        MetricTable::Size
    } else if has(&DETAILS) {
        MetricTable::Detail
    } else {
        MetricTable::Probe
    };
    let id = id.to_owned();
    Some(Metric { id, label, unit, factor, digits, better, note, table })
}

/// What follows the beginning of a key, which ends there or goes on with `_`.
fn rest<'a>(id: &'a str, beginning: &str) -> Option<&'a str> {
    id.strip_prefix(beginning).filter(|rest| rest.is_empty() || rest.starts_with('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percent_and_say_of_what() {
        let state = Metric::of("state_surface");
        assert_eq!((state.label.as_str(), state.unit), ("State, surface", "%"));
        assert_eq!((state.text(0.802), state.signed(0.25)), ("80.2".into(), "+25.0".into()));
        let small = Metric::of("state_container_small_mse");
        assert_eq!(small.label, "State, container, small, by squared error");
        assert!(small.note.contains("small changes") && small.note.contains("not LPIPS"));
        assert!(state.place() < small.place());
        assert_eq!((state.table, small.table), (MetricTable::Probe, MetricTable::Size));
        let now = Metric::of("state_surface_now");
        assert_eq!((now.label.as_str(), now.table), ("State, surface, now", MetricTable::Detail));
        assert_eq!(Metric::of("counterfactual_recalled").table, MetricTable::Detail);
        assert!(Metric::of("state_container_outdated").note.contains("what luck scores"));
        let order = ["state_surface_small", "state_surface_medium", "state_surface_large"];
        assert!(order.map(|id| Metric::of(id).place()).is_sorted());
        assert_eq!(Metric::of("counterfactual").table, MetricTable::Probe);
        let alarms = Metric::of("detector_false_positive");
        assert_eq!(
            (alarms.label.as_str(), alarms.better),
            ("Detector false alarms", Better::Lower)
        );
        assert!(Metric::of("both_ends").note.contains("true end"));
        assert_eq!(Metric::of("both_ends_static").label, "Both ends, nobody");
    }

    #[test]
    fn weights_are_of_a_cue_and_judge_nobody() {
        let weight = Metric::of("weight_audio_blocked");
        assert_eq!((weight.label.as_str(), weight.better), ("λ audio, blocked", Better::Neither));
        assert_eq!((weight.unit, weight.text(0.4321)), ("", "0.43".into()));
        assert!(weight.note.contains("`audio`; where the line of sight"), "{}", weight.note);
        assert_eq!(weight.table, MetricTable::Detail);
        assert_eq!(Metric::of("weight_audio_rise").label, "λ audio, blocked − clear");
        assert_eq!(Metric::of("weighting").table, MetricTable::Main, "only whole words count");
    }
}
