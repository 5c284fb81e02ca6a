//! The template of the page: what is the same in every report.

/// The scripts in the order in which the page runs them.
const SCRIPTS: [&str; 18] = [
    include_str!("element.js"),
    include_str!("chart.js"),
    include_str!("table.js"),
    include_str!("headline.js"),
    include_str!("state.js"),
    include_str!("picture.js"),
    include_str!("enlarged.js"),
    include_str!("gif.js"),
    include_str!("download.js"),
    include_str!("map.js"),
    include_str!("reason.js"),
    include_str!("link.js"),
    include_str!("replay.js"),
    include_str!("player.js"),
    include_str!("probe.js"),
    include_str!("training.js"),
    include_str!("report.js"),
    include_str!("selftest.js"),
];

/// Puts the parts into the page, each at its one mark, so that nothing in the data can be taken
/// for a mark.
pub(super) fn fill(title: &str, json: &str) -> String {
    let scripts = SCRIPTS.join("\n");
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    // A closing tag or a comment inside a text would end or change the script; "<" stands only in
    // texts.
    let json = json.replace('<', "\\u003c");
    let parts = [
        ("{{title}}", title.as_str()),
        ("{{style}}", include_str!("report.css")),
        ("{{data}}", json.as_str()),
        ("{{script}}", scripts.as_str()),
    ];
    let mut rest = include_str!("report.html");
    let mut page = String::with_capacity(json.len() + (1 << 17));
    for (mark, part) in parts {
        let (before, after) = rest.split_once(mark).expect("the template has every mark in order");
        page.push_str(before);
        page.push_str(part);
        rest = after;
    }
    page + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_filled_once() {
        let page = fill("Walks & <ways>", "{\"note\":\"</script>{{script}}\"}");
        assert!(page.contains("<title>Walks &amp; &lt;ways></title>"));
        assert!(page.contains("{\"note\":\"\\u003c/script>{{script}}\"}"), "data stay as they are");
        assert_eq!(page.matches("function drawHeadline(").count(), 1);
        assert!(!page.contains("{{style}}") && page.contains("prefers-color-scheme"));
    }
}
