//! The arms of a comparison as people meet them: which are learned, which are rules, which are
//! controls, and the color that each keeps everywhere on the page.

use serde::Serialize;
use std::collections::BTreeSet;

/// What kind of recall an arm is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Recall that was trained.
    Learned,
    /// A rule made by hand.
    Rule,
    /// Not a rule that one would use, but what bounds the others.
    Control,
}

/// One arm as the page shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownArm {
    /// Its name in `results.json`.
    pub name: String,
    /// What kind it is.
    pub role: Role,
    /// Which color of the page's palette it has.
    pub color: usize,
    /// What it does, in one line; empty when it is not known.
    pub note: &'static str,
}

/// Controls in the order in which they are shown.
const CONTROLS: [&str; 4] = ["none", "copy", "oracle", "tokenizer"];

/// Colors of the page's palette that are for arms other than controls; `report.css` has them and
/// then one gray for each control.
const COLORS: usize = 10;

/// Arms whose color never changes, so that pages of different runs can be compared.
const FIXED: [&str; 8] = [
    "far-multi",
    "worldmem",
    "longlive-rag",
    "temporal",
    "nearest-pose",
    "far-meta",
    "random",
    "far-vision",
];

impl Role {
    /// The kind of the arm with this name.
    pub fn of(name: &str) -> Self {
        match name {
            _ if CONTROLS.contains(&name) => Self::Control,
            _ if name == "far" || name.starts_with("far-") => Self::Learned,
            _ => Self::Rule,
        }
    }
}

impl ShownArm {
    /// All arms with these names: learned, then rules, then controls, each in the order of their
    /// colors. Colors do not repeat while there are any left.
    pub fn all<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Self> {
        let names: BTreeSet<&str> = names.into_iter().collect();
        let mut free = (0..COLORS)
            .filter(|color| FIXED.get(*color).is_none_or(|fixed| !names.contains(fixed)))
            // Colors that belong to nobody come before those of arms that are not here.
            .collect::<Vec<_>>();
        free.sort_by_key(|color| (*color < FIXED.len(), *color));
        let mut free = free.into_iter().chain((0..COLORS).cycle());
        let mut arms: Vec<Self> = Vec::new();
        for name in names {
            let control = CONTROLS.iter().position(|control| *control == name);
            let fixed = FIXED.iter().position(|fixed| *fixed == name);
            let color = control.map(|index| COLORS + index).or(fixed);
            let color = color.or_else(|| free.next()).unwrap_or(0);
            arms.push(Self {
                name: name.to_owned(),
                role: Role::of(name),
                color,
                note: note(name),
            });
        }
        arms.sort_by_key(|arm| (arm.role, arm.color));
        arms
    }
}

/// The learned arm that a comparison is about: `far-multi`, else the first that was learned.
pub fn learned<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let multi = names.clone().find(|name| *name == "far-multi");
    multi.or_else(|| names.clone().find(|name| Role::of(name) == Role::Learned))
}

fn note(name: &str) -> &'static str {
    match name {
        "far" | "far-multi" => "learned recall by pose, time and further cues",
        "far-meta" => "learned recall by pose and time only",
        "far-vision" => "learned recall by appearance only",
        "far-audio" => "learned recall by sound only",
        "far-agent" => "learned recall by who is in view only",
        "worldmem" => "greatest overlap of the fields of view, newer first",
        "longlive-rag" => "most similar appearance",
        "temporal" => "the latest frames",
        "nearest-pose" => "the nearest camera pose",
        "random" => "drawn by chance",
        "none" => "no memory at all",
        "copy" => "the top memory pasted as the prediction",
        "oracle" => "recall by the measured utility of single memories",
        "tokenizer" => "the truth encoded and decoded, the ceiling of any prediction",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learned_arms_come_first_and_controls_last() {
        let arms = ShownArm::all(["tokenizer", "worldmem", "none", "far-multi", "temporal"]);
        let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(names, ["far-multi", "worldmem", "temporal", "none", "tokenizer"]);
        assert_eq!(arms[3].role, Role::Control);
    }

    #[test]
    fn an_arm_keeps_its_color_and_no_two_share_one() {
        let alone = ShownArm::all(["worldmem"]);
        let many =
            ShownArm::all(["worldmem", "vrag", "spmem", "far-multi", "oracle", "none", "copy"]);
        let color =
            |arms: &[ShownArm], name: &str| arms.iter().find(|arm| arm.name == name).unwrap().color;
        assert_eq!(color(&alone, "worldmem"), color(&many, "worldmem"));
        let distinct: BTreeSet<usize> = many.iter().map(|arm| arm.color).collect();
        assert_eq!(distinct.len(), many.len());
    }

    #[test]
    fn more_arms_than_colors_repeat_instead_of_failing() {
        let names: Vec<String> = (0..30).map(|index| format!("rule-{index:02}")).collect();
        let arms = ShownArm::all(names.iter().map(String::as_str));
        assert_eq!(arms.len(), 30);
        assert!(arms.iter().all(|arm| arm.color < COLORS));
    }

    #[test]
    fn the_comparison_is_about_the_arm_with_all_cues() {
        assert_eq!(learned(["far-meta", "far-multi"].into_iter()), Some("far-multi"));
        assert_eq!(learned(["far-meta", "far-vision"].into_iter()), Some("far-meta"));
        assert_eq!(learned(["worldmem", "none"].into_iter()), None);
    }
}
