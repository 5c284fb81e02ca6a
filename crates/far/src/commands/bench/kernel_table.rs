//! The time of a run by kernel, the longest first.

use far_tensor::Spent;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What the kernels of a run took, each summed over its launches.
#[derive(Default)]
pub struct KernelTable {
    rows: Vec<Row>,
}

struct Row {
    name: &'static str,
    milliseconds: f64,
    count: f64,
}

impl KernelTable {
    /// Means over `runs` recorded runs.
    pub fn new(spent: BTreeMap<&'static str, Spent>, runs: usize) -> Self {
        let share = 1.0 / runs.max(1) as f64;
        let mut rows: Vec<Row> = spent
            .into_iter()
            .map(|(name, spent)| Row {
                name,
                milliseconds: spent.time.as_secs_f64() * 1e3 * share,
                count: spent.count as f64 * share,
            })
            .collect();
        rows.sort_by(|a, b| b.milliseconds.total_cmp(&a.milliseconds));
        Self { rows }
    }

    /// Milliseconds of all kernels.
    pub fn total(&self) -> f64 {
        self.rows.iter().map(|row| row.milliseconds).sum()
    }

    /// The table as data.
    pub fn json(&self) -> Value {
        let total = self.total();
        let rows = self.rows.iter().map(|row| {
            json!({
                "kernel": row.name,
                "ms": row.milliseconds,
                "share": row.milliseconds / total,
                "count": row.count,
            })
        });
        rows.collect()
    }

    /// The table for people; `run` is what one run is called and `seconds` what it takes unobserved.
    /// Times of threads that work side by side add up, so that the sum may be larger.
    pub fn print(&self, run: &str, seconds: f64) {
        let total = self.total();
        println!("  {:<36} {:>10} {:>7} {:>9}", "", format!("ms/{run}"), "share", "times");
        for Row { name, milliseconds, count } in &self.rows {
            let share = 100.0 * milliseconds / total;
            println!("  {name:<36} {milliseconds:>10.3} {share:>6.1}% {count:>9.1}");
        }
        println!("  {:<36} {total:>10.3}", "all of these");
        println!("  {:<36} {:>10.3}", format!("a {run} unobserved"), 1e3 * seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_longest_comes_first_with_its_share() {
        let spent =
            |milliseconds, count| Spent { time: Duration::from_millis(milliseconds), count };
        let table = KernelTable::new(BTreeMap::from([("a", spent(2, 4)), ("b", spent(6, 2))]), 2);
        assert!((table.total() - 4.0).abs() < 1e-9);
        let rows = table.json();
        assert_eq!((rows[0]["kernel"].as_str(), rows[0]["count"].as_f64()), (Some("b"), Some(1.0)));
        assert!((rows[0]["share"].as_f64().unwrap() - 0.75).abs() < 1e-9);
        assert_eq!(rows[1]["ms"].as_f64(), Some(1.0));
    }
}
