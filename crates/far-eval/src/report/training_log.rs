//! Training curves out of a run's `metrics.jsonl`: one JSON object per line with `step` and
//! numbers, of several kinds that may have fields of the same name.

use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Points of a curve that are drawn at most; longer ones are averaged.
const POINTS: usize = 300;
/// Fields that only count along and make no curve.
const COUNTERS: [&str; 5] = ["step", "update", "seconds", "time", "elapsed"];
/// The kind of a line whose fields need no further name.
const PLAIN_KIND: &str = "step";

/// Every number that training wrote down, by step.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TrainingLog {
    /// One curve per field; names of what lies inside of others are joined by points, and begin
    /// with the `kind` of their line.
    pub series: BTreeMap<String, Series>,
    /// The same of lines that belong to one of several arms that learn together, by arm.
    pub arms: BTreeMap<String, BTreeMap<String, Series>>,
    /// Lines that could not be understood, for instance because the run was killed while writing.
    pub skipped: usize,
}

/// One number over the steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Series {
    /// Steps, ascending.
    pub step: Vec<f64>,
    /// The values there; `None` where it was not finite.
    pub value: Vec<Option<f64>>,
}

impl TrainingLog {
    /// Understands the text of `metrics.jsonl`. A line that is no object with a step is skipped
    /// and counted. When a run went back to a checkpoint, what it did again replaces what it did
    /// before.
    pub fn parse(text: &str) -> Self {
        let mut log = Self::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let object = serde_json::from_str::<Value>(line).ok();
            let step = object.as_ref().and_then(|object| object.get("step")?.as_f64());
            let (Some(Value::Object(object)), Some(step)) = (object, step) else {
                log.skipped += 1;
                continue;
            };
            let kind = object.get("kind").and_then(Value::as_str);
            let prefix = kind.filter(|kind| *kind != PLAIN_KIND);
            let series = match object.get("arm").and_then(Value::as_str) {
                Some(arm) => log.arms.entry(arm.to_owned()).or_default(),
                None => &mut log.series,
            };
            for (name, value) in &object {
                add(series, prefix, name, value, step);
            }
        }
        for series in log.arms.values_mut().chain([&mut log.series]) {
            series.retain(|_, series| series.value.iter().any(Option::is_some));
        }
        log
    }
}

/// Adds a value of a line to its curve, and what lies inside of it to theirs.
fn add(
    curves: &mut BTreeMap<String, Series>,
    prefix: Option<&str>,
    name: &str,
    value: &Value,
    step: f64,
) {
    if COUNTERS.contains(&name) {
        return;
    }
    let name = prefix.map_or_else(|| name.to_owned(), |prefix| format!("{prefix}.{name}"));
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                add(curves, Some(&name), field, value, step);
            }
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                add(curves, Some(&name), &(index + 1).to_string(), value, step);
            }
        }
        Value::Number(_) | Value::Null => {
            curves.entry(name).or_default().push(step, value.as_f64())
        }
        _ => {}
    }
}

impl Series {
    /// Adds a value; those of this and later steps were made before the run went back.
    fn push(&mut self, step: f64, value: Option<f64>) {
        while self.step.last().is_some_and(|last| *last >= step) {
            self.step.pop();
            self.value.pop();
        }
        self.step.push(step);
        self.value.push(value);
    }

    /// Averages neighbors until there are few enough points to draw.
    pub(super) fn thin(&mut self) {
        let each = self.step.len().div_ceil(POINTS);
        if each <= 1 {
            return;
        }
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        self.step = self.step.chunks(each).map(mean).collect();
        let means = self.value.chunks(each).map(|values| {
            let known: Vec<f64> = values.iter().flatten().copied().collect();
            (!known.is_empty()).then(|| mean(&known))
        });
        self.value = means.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_makes_a_curve() {
        let text = "{\"step\":1,\"loss\":0.5,\"retriever\":{\"kl\":2,\"note\":\"x\"},\"seconds\":1}\n\
                    {\"step\":2,\"loss\":null,\"retriever\":{\"kl\":1}}\n";
        let log = TrainingLog::parse(text);
        let names: Vec<&str> = log.series.keys().map(String::as_str).collect();
        assert_eq!(names, ["loss", "retriever.kl"]);
        assert_eq!(log.series["loss"].value, [Some(0.5), None]);
        assert_eq!(log.series["retriever.kl"].step, [1.0, 2.0]);
        assert_eq!(log.skipped, 0);
    }

    #[test]
    fn kinds_of_lines_keep_their_fields_apart() {
        let text = "{\"kind\":\"step\",\"step\":5,\"loss\":0.5}\n\
                    {\"kind\":\"retriever\",\"step\":5,\"update\":1,\"loss\":2,\"spread\":[3,null]}\n\
                    {\"kind\":\"evaluation\",\"step\":5,\"values\":{\"psnr\":17}}\n";
        let log = TrainingLog::parse(text);
        let names: Vec<&str> = log.series.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            ["evaluation.values.psnr", "loss", "retriever.loss", "retriever.spread.1"]
        );
        assert_eq!(log.series["loss"].value, [Some(0.5)]);
        assert_eq!(log.series["retriever.loss"].value, [Some(2.0)]);
    }

    /// Two retrievers that learn in one run write a line each for the same step.
    #[test]
    fn lines_of_two_arms_are_two_curves() {
        let line = |arm: &str, meta: f64| {
            format!(
                "{{\"kind\":\"retriever\",\"step\":4,\"arm\":\"{arm}\",\"weights\":{{\"meta\":{meta}}}}}\n"
            )
        };
        let text = line("far-multi", 0.59) + &line("far-meta", 1.0) + "{\"step\":4,\"loss\":2}";
        let log = TrainingLog::parse(&text);
        let weight = |arm: &str| log.arms[arm]["retriever.weights.meta"].value.clone();
        assert_eq!((weight("far-multi"), weight("far-meta")), (vec![Some(0.59)], vec![Some(1.0)]));
        assert_eq!(log.series.keys().collect::<Vec<_>>(), ["loss"]);
    }

    #[test]
    fn a_torn_line_is_counted_and_left_out() {
        let log =
            TrainingLog::parse("{\"step\":1,\"loss\":1}\n{\"step\":2,\"lo\n7\n\n{\"loss\":1}");
        assert_eq!(log.skipped, 3);
        assert_eq!(log.series["loss"].step, [1.0]);
        assert_eq!(TrainingLog::parse(""), TrainingLog::default());
    }

    #[test]
    fn what_was_done_again_replaces_what_was_done_before() {
        let text = [1, 2, 3, 2, 3].iter().enumerate();
        let text: String =
            text.map(|(line, step)| format!("{{\"step\":{step},\"loss\":{line}}}\n")).collect();
        let log = TrainingLog::parse(&text);
        assert_eq!(log.series["loss"].step, [1.0, 2.0, 3.0]);
        assert_eq!(log.series["loss"].value, [Some(0.0), Some(3.0), Some(4.0)]);
    }

    #[test]
    fn long_curves_are_averaged() {
        let text: String =
            (0..1000).map(|step| format!("{{\"step\":{step},\"loss\":{step}}}\n")).collect();
        let mut series = TrainingLog::parse(&text).series.remove("loss").unwrap();
        assert_eq!(series.step.len(), 1000);
        series.thin();
        assert_eq!(series.step.len(), 250);
        assert_eq!((series.step[0], series.value[0]), (1.5, Some(1.5)));
    }
}
