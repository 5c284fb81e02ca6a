//! The table of settings in GUIDE.md is that of `configs/default.toml`.

use far_train::documented;
use std::path::Path;

const BEGIN: &str = "<!-- settings -->\n";
const END: &str = "<!-- /settings -->";

fn table() -> String {
    let mut text = String::new();
    let mut section = "";
    for setting in documented() {
        if setting.table != section {
            section = &setting.table;
            text += &format!(
                "\n### `[{section}]`\n\n| setting | default | what it does |\n|---|---|---|\n"
            );
        }
        let absent =
            if setting.optional { "–".to_owned() } else { format!("`{}`", setting.value) };
        let comment = setting.comment.replace('|', "\\|");
        text += &format!("| `{}` | {absent} | {comment} |\n", setting.name);
    }
    text + "\n"
}

#[test]
fn the_guide_lists_every_setting_as_it_is() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../GUIDE.md");
    let guide = std::fs::read_to_string(&path).expect("the guide");
    let (before, rest) = guide.split_once(BEGIN).expect("the table begins");
    let (found, after) = rest.split_once(END).expect("the table ends");
    if std::env::var_os("UPDATE_GUIDE").is_some() {
        let text = format!("{before}{BEGIN}{}{END}{after}", table());
        std::fs::write(&path, text).expect("the guide is writable");
        return;
    }
    let command = "UPDATE_GUIDE=1 cargo test --release -p far-train --test guide";
    assert!(found == table(), "GUIDE.md is out of date; run: {command}");
}
