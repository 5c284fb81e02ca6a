//! The page of some runs, and the data inlined in it.

use super::curve_group::CurveGroup;
use super::headline::Headline;
use super::markdown::unmeasured;
use super::picture_pack::PicturePack;
use super::probe_page::ProbePage;
use super::replay_view::ReplayView;
use super::run::ReportRun;
use super::shown_arm::ShownArm;
use super::summary::summary;
use super::template;
use super::trained_part::{TrainedPart, Training};
use super::training_log::Series;
use crate::{Results, Role};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Characters of pictures per run: with everything else a page stays below six megabytes.
const PICTURE_BUDGET: usize = 5_200_000;

/// Rules that are all shown at once; of more, the strongest are, and the others on demand.
const MOST_RULES: usize = 10;
const STRONGEST: usize = 6;

#[derive(Serialize)]
struct PageData<'a> {
    title: &'a str,
    version: &'static str,
    arms: Vec<ShownArm>,
    runs: Vec<RunData<'a>>,
    /// Names for people of those numbers of training logs that are metrics.
    training_names: BTreeMap<&'a str, String>,
    pictures: Vec<String>,
}

#[derive(Serialize)]
struct RunData<'a> {
    name: &'a str,
    facts: Vec<(&'static str, String)>,
    summary: Vec<String>,
    headline: Headline,
    /// Arms that are shown when they are asked for.
    on_demand: Vec<String>,
    curves: Vec<CurveGroup<'a>>,
    replays: Vec<ReplayView<'a>>,
    probes: Vec<ProbePage<'a>>,
    trainings: Vec<Training>,
    /// Lines of training logs that could not be read.
    skipped: usize,
    /// Configurations by the names of their files.
    configs: Vec<(String, &'a str)>,
    command: Option<&'a str>,
}

/// The self-contained page of some runs.
///
/// ```
/// use far_eval::{ReportRun, Results, report_page};
///
/// let results = Results { corpus: "village".into(), clips: 24, ..Results::default() };
/// let run = ReportRun { name: "demo".into(), results, ..ReportRun::default() };
/// let page = report_page(&[run]);
/// assert!(page.starts_with("<!doctype html>") && page.contains("village"));
/// ```
pub fn report_page(runs: &[ReportRun]) -> String {
    let title = title(runs);
    let mut pack = PicturePack::default();
    let data: Vec<RunData> = runs.iter().map(|run| run_data(run, &mut pack)).collect();
    let described = runs.iter().flat_map(|run| {
        let replayed = run.replays.iter().flat_map(|replay| replay.arms.keys());
        let pairs = run.counterfactuals.iter().flat_map(|view| view.arms.keys());
        let ends = run.both_ends.iter().flat_map(|view| view.arms.keys());
        let probed = pairs.chain(ends);
        let names = run.results.arms.keys().chain(replayed).chain(probed);
        names.map(|name| (name.as_str(), run.results.arm(name)))
    });
    let data = PageData {
        title: &title,
        version: env!("CARGO_PKG_VERSION"),
        arms: ShownArm::all(&described.collect()),
        runs: data,
        training_names: training_names(runs),
        pictures: pack.encode(PICTURE_BUDGET * runs.len().max(1)),
    };
    let json = serde_json::to_string(&data).expect("the page's data has only text keys");
    template::fill(&title, &json)
}

/// Metrics that were measured during training, by their names in the logs.
fn training_names(runs: &[ReportRun]) -> BTreeMap<&str, String> {
    let names = runs.iter().flat_map(|run| {
        let logs = run.parts.iter().map(|part| &part.training).chain([&run.training]);
        let names = logs.flat_map(|log| log.series.keys());
        names.filter_map(|name| {
            let id = name.strip_prefix("evaluation.values.")?;
            Some((name.as_str(), run.results.metric(id).label))
        })
    });
    names.collect()
}

fn title(runs: &[ReportRun]) -> String {
    let corpora: BTreeSet<&str> = runs.iter().map(|run| run.results.corpus.as_str()).collect();
    let corpora: Vec<&str> = corpora.into_iter().filter(|corpus| !corpus.is_empty()).collect();
    match corpora.as_slice() {
        [] => "What was recalled, and why".to_owned(),
        corpora => format!("What was recalled, and why: {}", corpora.join(", ")),
    }
}

fn run_data<'a>(run: &'a ReportRun, pack: &mut PicturePack<'a>) -> RunData<'a> {
    let headline = Headline::of(&run.results);
    RunData {
        name: &run.name,
        facts: facts(&run.results),
        summary: summary(&run.results),
        on_demand: on_demand(&headline),
        headline,
        curves: CurveGroup::all(&run.results),
        replays: run.replays.iter().map(|replay| ReplayView::new(replay, pack)).collect(),
        probes: probes(run, pack),
        trainings: trainings(run),
        skipped: run.training.skipped
            + run.parts.iter().map(|part| part.training.skipped).sum::<usize>(),
        configs: configs(run),
        command: run.command.as_deref(),
    }
}

/// Controls but for the oracle, and the weaker rules where there are more than a chart can show.
fn on_demand(headline: &Headline) -> Vec<String> {
    let rules = headline.rows.iter().filter(|row| row.role == Role::Rule).count();
    let weaker = if rules > MOST_RULES { headline.weaker_rules(STRONGEST) } else { Vec::new() };
    let controls = headline.rows.iter().filter(|row| row.role == Role::Control);
    let controls = controls.map(|row| row.arm.as_str()).filter(|arm| *arm != "oracle");
    weaker.into_iter().chain(controls).map(str::to_owned).collect()
}

/// The curves of the run and of the trainings inside its folder, with no more points than are drawn.
fn trainings(run: &ReportRun) -> Vec<Training> {
    let (name, training) = (run.name.clone(), run.training.clone());
    let own = TrainedPart { name, training, config: None };
    let mut all: Vec<Training> =
        [&own].into_iter().chain(&run.parts).flat_map(TrainedPart::trainings).collect();
    let series = all.iter_mut().flat_map(|training| training.series.values_mut());
    series.for_each(Series::thin);
    all
}

fn configs(run: &ReportRun) -> Vec<(String, &str)> {
    let own = run.config.as_deref().map(|config| ("config.toml".to_owned(), config));
    let parts = run
        .parts
        .iter()
        .filter_map(|part| Some((format!("{}/config.toml", part.name), part.config.as_deref()?)));
    own.into_iter().chain(parts).collect()
}

fn probes<'a>(run: &'a ReportRun, pack: &mut PicturePack<'a>) -> Vec<ProbePage<'a>> {
    let mut probes = Vec::new();
    probes.extend(run.counterfactuals.iter().map(|view| ProbePage::of_pair(view, pack)));
    probes.extend(run.both_ends.iter().map(|view| ProbePage::of_ends(view, pack)));
    probes
}

fn facts(results: &Results) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("Corpus", results.corpus.clone()),
        ("Clips", results.clips.to_string()),
        (
            "Memories per recall",
            if results.slots == 0 { String::new() } else { results.slots.to_string() },
        ),
        ("Judged by", judge(&results.judge)),
        seeds(results),
        ("Device", results.device.clone()),
    ];
    facts.extend(unmeasured(results).map(|absent| ("Not measured", absent)));
    facts.extend(results.train_seconds.map(|seconds| ("Training", duration(seconds))));
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

fn seeds(results: &Results) -> (&'static str, String) {
    match results.seeds.as_slice() {
        [] => ("Seed", results.seed.to_string()),
        seeds => ("Seeds", seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

fn judge(judge: &str) -> String {
    match judge {
        "common" => "one world model for all arms".to_owned(),
        "own" => "each arm's own world model".to_owned(),
        other => other.to_owned(),
    }
}

fn duration(seconds: f64) -> String {
    if seconds < 120.0 {
        return format!("{seconds:.0} s");
    }
    let minutes = (seconds / 60.0).round() as u64;
    if minutes < 120 {
        format!("{minutes} min")
    } else {
        format!("{} h {} min", minutes / 60, minutes % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrainingLog;
    use crate::report::fixture::{both_ends, counterfactual, interval, replay, results};
    use serde_json::Value;

    fn run() -> ReportRun {
        let evaluation = "{\"kind\":\"evaluation\",\"step\":1,\"values\":{\"one_step_psnr\":20}}";
        let training = TrainingLog::parse(&format!("{{\"step\":1,\"loss\":2}}\n{evaluation}"));
        let config = Some("seed = 0".into());
        ReportRun {
            name: "demo".into(),
            results: results(),
            replays: vec![replay()],
            counterfactuals: vec![counterfactual()],
            both_ends: vec![both_ends()],
            training,
            config,
            ..ReportRun::default()
        }
    }

    /// The data as the page's script reads it.
    fn data(page: &str) -> Value {
        let (_, rest) = page.split_once("<script id=\"data\" type=\"application/json\">").unwrap();
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    }

    #[test]
    fn the_page_holds_everything_and_asks_for_nothing() {
        let page = report_page(&[run()]);
        for mark in ["{{", "http://", "https://", " src=", "@import", "url("] {
            let found = page.split(mark).count() - 1;
            let allowed = page.matches("http://www.w3.org/2000/svg").count();
            assert!(
                found <= if mark == "http://" { allowed } else { 0 },
                "{mark} stands in the page"
            );
        }
        let data = data(&page);
        assert_eq!(data["runs"][0]["headline"]["rows"][0]["arm"], "far-multi");
        assert_eq!(data["runs"][0]["curves"][0]["metric"]["id"], "psnr");
        assert_eq!(data["runs"][0]["replays"][0]["frames"], serde_json::json!([5, 6, 7]));
        assert_eq!(data["runs"][0]["probes"][1]["probe"], "both_ends");
        assert_eq!(data["runs"][0]["trainings"][0]["series"]["loss"]["step"][0], 1.0);
        let names = &data["training_names"];
        assert_eq!(
            *names,
            serde_json::json!({ "evaluation.values.one_step_psnr": "one-step PSNR" })
        );
        assert_eq!(data["pictures"].as_array().unwrap().len(), 35);
    }

    #[test]
    fn names_cannot_break_out_of_the_data() {
        let mut hostile = run();
        hostile.name = "</script><script>alert(1)</script><!-- {{script}}".into();
        hostile.results.corpus = "<b>&{{data}}".into();
        let page = report_page(&[hostile.clone()]);
        assert!(!page.contains("</script><script>alert"));
        assert!(page.contains("<title>What was recalled, and why: &lt;b>&amp;"));
        assert_eq!(data(&page)["runs"][0]["name"], hostile.name.as_str());
    }

    #[test]
    fn values_that_are_not_numbers_become_null() {
        let mut odd = run();
        let curve = odd.results.curves.get_mut("far-multi").unwrap().get_mut("psnr").unwrap();
        curve.values[0].lo = f64::NAN;
        odd.replays[0].arms.get_mut("worldmem").unwrap()[0].psnr = f64::INFINITY;
        let data = data(&report_page(&[odd]));
        assert_eq!(data["runs"][0]["curves"][0]["arms"]["far-multi"]["values"][0][1], Value::Null);
        assert_eq!(data["runs"][0]["replays"][0]["arms"]["worldmem"][0]["psnr"], Value::Null);
    }

    #[test]
    fn an_arm_has_one_color_in_all_runs() {
        let mut second = run();
        second.results.arms.insert("vrag".into(), Default::default());
        let data = data(&report_page(&[run(), second]));
        let arms = data["arms"].as_array().unwrap();
        assert_eq!(arms.len(), 6);
        assert_eq!(data["runs"].as_array().unwrap().len(), 2);
        assert_eq!(data["pictures"].as_array().unwrap().len(), 35, "pictures are shared");
    }

    #[test]
    fn of_many_rules_the_strongest_are_shown_and_the_others_on_demand() {
        let of = |rules: usize| {
            let mut results = results();
            for place in 0..rules {
                let psnr = interval(10.0 + place as f64, 0.1);
                results.arms.insert(format!("rule-{place:02}"), [("psnr".to_owned(), psnr)].into());
            }
            on_demand(&Headline::of(&results))
        };
        // Beside two rules of the fixture and its controls, none and oracle.
        assert_eq!(of(MOST_RULES - 2), ["none"]);
        let hidden = of(MOST_RULES);
        assert_eq!(hidden.len(), MOST_RULES + 2 - STRONGEST + 1);
        assert!(hidden.contains(&"rule-00".to_owned()) && !hidden.contains(&"rule-09".to_owned()));
    }

    #[test]
    fn facts_are_told_in_words() {
        let labels = facts(&Results { train_seconds: Some(7500.0), ..results() });
        assert!(labels.contains(&("Training", "2 h 5 min".to_owned())));
        assert!(labels.contains(&("Judged by", "one world model for all arms".to_owned())));
        assert!(!facts(&Results::default()).iter().any(|(label, _)| *label == "Device"));
    }
}
