//! The arms of a comparison as people meet them: which are learned, which are rules, which are
//! controls, and the color that each keeps everywhere on the page.

use crate::{ArmDescription, Control, Role};
use serde::Serialize;
use std::collections::BTreeMap;

/// One arm as the page shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownArm {
    /// Its name in `results.json`.
    pub name: String,
    /// What kind it is.
    pub role: Role,
    /// Which color of the page's palette it has.
    pub color: usize,
    /// Which pattern its lines have: 0 while no other arm has this color, then one for each more.
    pub pattern: usize,
    /// What it does, in one line; empty when it is not known.
    pub note: String,
}

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

impl ShownArm {
    /// All these arms: learned, then rules, then controls, each in the order of their colors. Colors
    /// do not repeat while there are any left; then lines have another pattern.
    pub fn all(described: &BTreeMap<&str, ArmDescription>) -> Vec<Self> {
        let mut free = (0..COLORS)
            .filter(|color| FIXED.get(*color).is_none_or(|fixed| !described.contains_key(fixed)))
            // Colors that no arm owns come before those of arms that are not here.
            .collect::<Vec<_>>();
        free.sort_by_key(|color| (*color < FIXED.len(), *color));
        let unused = free.into_iter().map(|color| (color, 0));
        let again = (1..).flat_map(|pattern| (0..COLORS).map(move |color| (color, pattern)));
        let mut free = unused.chain(again);
        let mut arms: Vec<Self> = Vec::new();
        for (name, ArmDescription { role, note, .. }) in described {
            let mut controls = Control::ALL.iter();
            let control = controls.position(|control| control.name() == *name);
            let fixed = FIXED.iter().position(|fixed| fixed == name);
            let color = control.map(|index| COLORS + index).or(fixed);
            let own = color.map(|color| (color, 0));
            let (color, pattern) = own.or_else(|| free.next()).expect("patterns do not end");
            let (name, note) = ((*name).to_owned(), note.clone());
            arms.push(Self { name, role: *role, color, pattern, note });
        }
        arms.sort_by_key(|arm| (arm.role, arm.pattern, arm.color));
        arms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn all<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<ShownArm> {
        let described = names.into_iter().map(|name| (name, ArmDescription::of_name(name)));
        ShownArm::all(&described.collect())
    }

    #[test]
    fn learned_arms_come_first_and_controls_last() {
        let arms = all(["tokenizer", "worldmem", "none", "far-multi", "temporal"]);
        let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(names, ["far-multi", "worldmem", "temporal", "none", "tokenizer"]);
        assert_eq!(arms[3].role, Role::Control);
    }

    #[test]
    fn an_arm_keeps_its_color_and_no_two_share_one() {
        let alone = all(["worldmem"]);
        let many = all(["worldmem", "vrag", "spmem", "far-multi", "oracle", "none", "copy"]);
        let color =
            |arms: &[ShownArm], name: &str| arms.iter().find(|arm| arm.name == name).unwrap().color;
        assert_eq!(color(&alone, "worldmem"), color(&many, "worldmem"));
        let distinct: BTreeSet<usize> = many.iter().map(|arm| arm.color).collect();
        assert_eq!(distinct.len(), many.len());
    }

    #[test]
    fn more_arms_than_colors_differ_in_the_pattern_of_their_lines() {
        let names: Vec<String> = (0..30).map(|index| format!("rule-{index:02}")).collect();
        let arms = all(names.iter().map(String::as_str).chain(["far-multi", "worldmem", "oracle"]));
        let lines: BTreeSet<[usize; 2]> = arms.iter().map(|arm| [arm.color, arm.pattern]).collect();
        assert_eq!((arms.len(), lines.len()), (33, 33));
        assert!(arms.iter().all(|arm| arm.color < COLORS || arm.role == Role::Control));
        let leading = arms.iter().find(|arm| arm.name == "far-multi").unwrap();
        assert_eq!([leading.color, leading.pattern], [0, 0]);
    }
}
