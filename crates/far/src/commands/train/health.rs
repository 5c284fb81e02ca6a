//! The health of a retriever in one line.

use far_train::RetrieverRecord;

/// The values of a retriever worth watching, most important first.
pub fn describe(record: &RetrieverRecord) -> String {
    let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.2}"));
    let mut parts = Vec::new();
    for (name, pool) in [("recalled", &record.global), ("chunk", &record.local)] {
        if let Some(pool) = pool {
            let [gap, rank, divergence] =
                [pool.utility_gap, pool.rank_correlation, pool.divergence].map(number);
            parts.push(format!("{name}: gap {gap}, rank {rank}, KL {divergence}"));
        }
    }
    if record.weights.len() > 1 {
        let weights = record.weights.iter();
        let weights = weights.map(|(cue, weight)| format!("{cue} {}", number(*weight)));
        parts.push(format!("λ {}", weights.collect::<Vec<_>>().join(", ")));
    }
    format!("{:8}{}", "", parts.join("  "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_train::PoolRecord;

    #[test]
    fn weights_are_shown_where_there_are_several() {
        let global = Some(PoolRecord { utility_gap: Some(1.5), ..PoolRecord::default() });
        let mut record = RetrieverRecord { global, ..RetrieverRecord::default() };
        record.weights.insert("meta".to_owned(), Some(0.75));
        assert_eq!(describe(&record).trim(), "recalled: gap 1.50, rank –, KL –");
        record.weights.insert("vision".to_owned(), Some(0.25));
        assert!(describe(&record).ends_with("λ meta 0.75, vision 0.25"));
    }
}
