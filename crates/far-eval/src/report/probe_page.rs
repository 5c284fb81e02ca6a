//! A probe with two sides as the page holds it: pictures by number, the rest in words.

use super::picture_pack::PicturePack;
use crate::{BothEndsView, CounterfactualView};
use far_data::Picture;
use serde::Serialize;
use std::collections::BTreeMap;

/// One question.
#[derive(Serialize)]
pub struct ProbePage<'a> {
    /// The probe, called as its metric.
    probe: &'static str,
    /// Where it was asked.
    place: String,
    /// Width and height of its pictures.
    size: [u32; 2],
    present: usize,
    /// What is compared: left, top, right and bottom edge in pixels; `null` for the whole picture.
    crop: Option<[u32; 4]>,
    sides: [SidePage; 2],
    arms: BTreeMap<&'a str, [AnswerPage; 2]>,
}

#[derive(Serialize)]
struct SidePage {
    name: String,
    truth: usize,
}

#[derive(Serialize)]
struct AnswerPage {
    picture: usize,
    right: bool,
    /// What the verdict rests on.
    note: String,
    /// Frames that were recalled for it, with their pictures.
    recalled: Vec<(usize, usize)>,
}

impl<'a> ProbePage<'a> {
    /// A counterfactual pair; its pictures go into the pack.
    pub fn of_pair(view: &'a CounterfactualView, pack: &mut PicturePack<'a>) -> Self {
        let CounterfactualView { episodes: [with, without], current, goal, .. } = view;
        let present = pack.add(&view.present);
        let [first, second] = view.truths.each_ref().map(|truth| pack.add(truth));
        let sides = [
            SidePage { name: format!("With the interaction (episode {with})"), truth: first },
            SidePage { name: format!("Without (episode {without})"), truth: second },
        ];
        let mut arms = BTreeMap::new();
        for (arm, answer) in &view.arms {
            let answers = [0, 1].map(|side: usize| AnswerPage {
                picture: pack.add(&answer.predictions[side]),
                right: answer.right[side],
                note: match answer.right[side] {
                    true => "nearer to its own truth",
                    false => "not nearer to its own truth",
                }
                .to_owned(),
                recalled: recalled(&answer.recalled[side], &view.memories[side], pack),
            });
            arms.insert(arm.as_str(), answers);
        }
        Self {
            probe: "counterfactual",
            place: format!("Episodes {with} and {without}, frame {goal} from frame {current}"),
            size: [view.present.width, view.present.height],
            present,
            crop: Some(view.crop),
            sides,
            arms,
        }
    }

    /// A both-ends probe; its pictures go into the pack.
    pub fn of_ends(view: &'a BothEndsView, pack: &mut PicturePack<'a>) -> Self {
        let BothEndsView { episode, current, .. } = view;
        let present = pack.add(&view.present);
        let sides = view.ends.each_ref().map(|end| SidePage {
            name: if end.agent { "The agent is here" } else { "No agent is here" }.to_owned(),
            truth: pack.add(&end.truth),
        });
        let mut arms = BTreeMap::new();
        for (arm, answers) in &view.arms {
            let answers = [0, 1].map(|end| {
                let answer = &answers[end];
                let found = if answer.fires { "an agent" } else { "no agent" };
                AnswerPage {
                    picture: pack.add(&answer.picture),
                    right: view.is_right(end, answer),
                    note: format!("the detector finds {found}"),
                    recalled: recalled(&answer.recalled, &view.memories, pack),
                }
            });
            arms.insert(arm.as_str(), answers);
        }
        Self {
            probe: "both_ends",
            place: format!("Episode {episode}, both ends from frame {current}"),
            size: [view.present.width, view.present.height],
            present,
            crop: None,
            sides,
            arms,
        }
    }
}

/// Recalled frames with the numbers of their pictures.
fn recalled<'a>(
    frames: &[usize],
    memories: &'a BTreeMap<usize, Picture>,
    pack: &mut PicturePack<'a>,
) -> Vec<(usize, usize)> {
    frames.iter().filter_map(|frame| Some((*frame, pack.add(memories.get(frame)?)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{both_ends, counterfactual};

    #[test]
    fn pairs_are_told_with_what_was_recalled() {
        let view = counterfactual();
        let mut pack = PicturePack::default();
        let page = serde_json::to_value(ProbePage::of_pair(&view, &mut pack)).unwrap();
        assert_eq!(pack.pictures().len(), 1 + 2 + 2 + 2 - 1, "the present is remembered too");
        let answers = &page["arms"]["far-multi"];
        assert_eq!(answers[0]["recalled"][0], serde_json::json!([7, page["present"]]));
        assert_eq!((&answers[0]["right"], &answers[1]["right"]), (&true.into(), &false.into()));
        assert_eq!(page["crop"], serde_json::json!([1, 0, 5, 4]));
        assert_eq!(page["place"], "Episodes 8 and 9, frame 45 from frame 40");
    }

    #[test]
    fn both_ends_are_told_with_what_the_detector_says() {
        let mut view = both_ends();
        view.arms.get_mut("worldmem").unwrap()[0].picture = view.ends[1].truth.clone();
        let mut pack = PicturePack::default();
        let page = serde_json::to_value(ProbePage::of_ends(&view, &mut pack)).unwrap();
        assert_eq!(pack.pictures().len(), 1 + 2 + 4 + 1 - 1);
        assert_eq!(page["arms"]["worldmem"][0]["picture"], page["sides"][1]["truth"]);
        assert_eq!(page["sides"][0]["name"], "The agent is here");
        let verdicts = |arm: &str| [0, 1].map(|end| page["arms"][arm][end]["right"] == true);
        assert_eq!((verdicts("far-multi"), verdicts("worldmem")), ([true, true], [true, false]));
        let note = page["arms"]["worldmem"][1]["note"].as_str().unwrap();
        assert_eq!(note, "the detector finds an agent");
    }
}
