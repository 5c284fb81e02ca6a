//! The both-ends probe: every arm is asked where the agent is while it is out of view.
//!
//! | metric | what |
//! |---|---|
//! | `both_ends` | share of memory-dependent clips with the right verdict at both ends |
//! | `both_ends_pair` | share of counterfactual pairs where both histories are right |
//! | `both_ends_static` | share of static controls where neither end fires |
//! | `predicted_ends` | share of memory-dependent clips whose predicted states are right at both ends |
//! | `crossing_recalled` | share of their questions for which the last crossing was recalled |
//! | `detector_recall`, `detector_false_positive` | of `tokenizer`: verdicts on the true frames |

mod question;
mod view;

pub use view::{BothEndsView, EndAnswer, EndView};

use super::{ClipGroup, Measured, Probe};
use crate::arm::Control;
use crate::evaluation::EvaluationContext;
use crate::prediction::{Ask, Imagined, Predictor};
use crate::{Better, KeptFile, Metric, MetricTable, Result};
use far_memory::Recall;
use far_model::LatentDetector;
use question::EndsQuestion;
use std::collections::BTreeMap;

/// The figures of the probe, in the order in which they are shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Figure {
    BothEnds,
    Pair,
    Static,
    Predicted,
    Crossing,
    DetectorRecall,
    DetectorFalseAlarms,
}

impl Figure {
    fn metric(self) -> Metric {
        let ends =
            "trajectories where the second agent is generated at its true end and not at the other";
        let detail = |metric: Metric| metric.in_table(MetricTable::Detail);
        match self {
            Self::BothEnds => {
                Metric::share("both_ends", "both ends").titled("both ends").noted(ends)
            }
            Self::Pair => Metric::share("both_ends_pair", "both ends, pairs").noted(format!(
                "{ends}; pairs of histories that differ in the last crossing: both must be right"
            )),
            Self::Static => {
                Metric::share("both_ends_static", "both ends, no agent").noted(format!(
                    "{ends}; trajectories without a second agent, where neither end may show one"
                ))
            }
            Self::Predicted => Metric::share("predicted_ends", "predicted ends").noted(
                "trajectories whose predicted states of the second agent are right at both ends",
            ),
            Self::Crossing => detail(Metric::share("crossing_recalled", "crossing recalled"))
                .noted(
                    "questions about an end for which a memory of the last crossing was recalled",
                ),
            Self::DetectorRecall => detail(Metric::share("detector_recall", "detector recall"))
                .noted("true views of the second agent that the detector finds"),
            Self::DetectorFalseAlarms => {
                detail(Metric::share("detector_false_positive", "detector false alarms"))
                    .with_better(Better::Lower)
                    .noted("true views without the second agent in which the detector finds it")
            }
        }
    }
}

/// The question of one clip.
struct Asked {
    /// The clip's place in its group.
    place: usize,
    /// The clip's number among all.
    row: usize,
    /// The clip's episode.
    episode: u32,
    question: EndsQuestion,
}

/// What one arm made of both ends of one clip.
struct Answered<'a> {
    verdicts: [bool; 2],
    /// What was recalled for each end.
    recalls: &'a [Recall],
    /// What was predicted of the second agent at each end; `None` where nothing is.
    states: Option<[&'a [f32]; 2]>,
}

/// The probe. It needs a detector of the agent, and clips that have two ends.
pub struct BothEnds<'a> {
    detector: Option<&'a LatentDetector>,
    measured: BTreeMap<Figure, Measured>,
    /// Whether an arm was right in an episode, for pairs of episodes.
    answers: BTreeMap<(String, u32), bool>,
    views: Vec<BothEndsView>,
}

impl<'a> BothEnds<'a> {
    /// A probe by this detector; without one it measures nothing.
    pub fn new(detector: Option<&'a LatentDetector>) -> Self {
        let (measured, answers, views) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Self { detector, measured, answers, views }
    }

    fn figure(&mut self, figure: Figure) -> &mut Measured {
        self.measured.entry(figure).or_insert_with(|| Measured::new(figure.metric()))
    }

    /// Counts an arm's answer about one clip.
    fn count(&mut self, predictor: &Predictor<'_>, asked: &Asked, answered: &Answered<'_>) {
        let (arm, row, question) = (predictor.arm().id(), asked.row, &asked.question);
        let right = question.is_right(answered.verdicts);
        let Some(there) = question.there else {
            self.figure(Figure::Static).answer(arm, row, right);
            self.answers.insert((arm.to_owned(), asked.episode), right);
            return;
        };
        self.figure(Figure::BothEnds).answer(arm, row, right);
        self.answers.insert((arm.to_owned(), asked.episode), right);
        let other = question.pair.and_then(|other| self.answers.get(&(arm.to_owned(), other)));
        if let Some(other) = other.copied() {
            self.figure(Figure::Pair).answer(arm, row, right && other);
        }
        if answered.recalls.iter().any(|recall| !recall.is_empty()) {
            let found = question.crossings(answered.recalls.iter());
            self.figure(Figure::Crossing).share(arm, row, found, 2);
        }
        if let Some(states) = answered.states {
            let right = question.is_right(states.map(|state| state[0] > 0.0));
            self.figure(Figure::Predicted).answer(arm, row, right);
        }
        if predictor.arm().is(Control::Tokenizer) {
            let [seen, alarm] = [there, 1 - there].map(|end| answered.verdicts[end]);
            self.figure(Figure::DetectorRecall).answer(arm, row, seen);
            self.figure(Figure::DetectorFalseAlarms).answer(arm, row, alarm);
        }
    }
}

impl Probe for BothEnds<'_> {
    fn ask(&mut self, context: &EvaluationContext<'_>, group: &ClipGroup) -> Result<()> {
        let Some(detector) = self.detector else { return Ok(()) };
        let all = questions(context, group)?;
        let asks = all.iter().flat_map(|asked| {
            let clip = &group.clips[asked.place];
            asked.question.queries(clip).map(|query| Ask::recorded(clip, query))
        });
        let asks: Vec<Ask<'_>> = asks.collect();
        if asks.is_empty() {
            return Ok(());
        }
        let states: Vec<Vec<f32>> = asks.iter().map(|ask| ask.recorded_state().to_vec()).collect();
        let most = context.plan.replays.saturating_sub(self.views.len());
        let views = all.iter().take(most).map(|asked| {
            BothEndsView::new(&asked.question, &group.clips[asked.place], context.quality)
        });
        let mut views: Vec<Option<BothEndsView>> = views.collect::<Result<_>>()?;
        for predictor in context.predictors {
            let recalls = predictor.recall(&asks)?;
            // The two goals of a clip meet the same noise: they differ in goal and memory alone.
            let noise = predictor.noise(&asks, |ask| ask.query.now());
            let imagined = predictor.imagine(&asks, &recalls, &states, &noise)?;
            let verdicts = detector.fires(&imagined.latents)?;
            let frames: Vec<&[f32]> =
                imagined.latents.chunks(imagined.latents.len() / asks.len()).collect();
            for (place, asked) in all.iter().enumerate() {
                let [west, east] = [2 * place, 2 * place + 1];
                let answered = Answered {
                    verdicts: [verdicts[west], verdicts[east]],
                    recalls: recalls.get(west..=east).unwrap_or_default(),
                    states: predicted(&imagined, asks.len(), [west, east]),
                };
                if let Some(Some(view)) = views.get_mut(place) {
                    let clip = &group.clips[asked.place];
                    let answers = [west, east].map(|at| (frames[at], verdicts[at]));
                    let arm = predictor.arm().id();
                    view.add(arm, clip, context.quality, answers, answered.recalls)?;
                }
                self.count(predictor, asked, &answered);
            }
        }
        self.views.extend(views.into_iter().flatten());
        Ok(())
    }

    fn finish(&mut self, _: &EvaluationContext<'_>) -> Result<Vec<Measured>> {
        Ok(std::mem::take(&mut self.measured).into_values().collect())
    }

    fn kept(&mut self) -> Vec<KeptFile> {
        self.views.drain(..).map(|view| KeptFile::of(&view)).collect()
    }
}

/// The questions of all clips that have two ends.
fn questions(context: &EvaluationContext<'_>, group: &ClipGroup) -> Result<Vec<Asked>> {
    let dataset = context.dataset.dataset();
    let mut all = Vec::new();
    for (place, clip) in group.clips.iter().enumerate() {
        let id = clip.episode().id();
        let episode = dataset.episode(id)?;
        let question = EndsQuestion::of(dataset, &episode)?;
        let row = group.first + place;
        all.extend(question.map(|question| Asked { place, row, episode: id, question }));
    }
    Ok(all)
}

/// What was predicted of the second agent in two of the generated frames.
fn predicted(imagined: &Imagined, frames: usize, at: [usize; 2]) -> Option<[&[f32]; 2]> {
    let numbers = imagined.states.len() / frames;
    let state = |frame: usize| imagined.states.get(frame * numbers..(frame + 1) * numbers);
    let [first, second] = at.map(state);
    Some([first?, second?]).filter(|_| numbers > 0)
}
