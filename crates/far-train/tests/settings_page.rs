//! `docs/settings.md` lists the settings of `configs/default.toml`.

use far_train::documented;
use std::path::Path;

const COMMAND: &str = "UPDATE_SETTINGS=1 cargo test --release -p far-train --test settings_page";

fn page() -> String {
    let mut text = format!(
        "# Settings\n\nEvery setting of `far train`, its default and what it does; a dash marks a setting that is \
         absent by default; there `none` takes it out of a preset.\nMade from `configs/default.toml` by `{COMMAND}`.\n"
    );
    let mut section = "";
    for setting in documented() {
        if setting.table != section {
            section = &setting.table;
            text += &format!(
                "\n## `[{section}]`\n\n| setting | default | what it does |\n|---|---|---|\n"
            );
        }
        let default =
            if setting.optional { "–".to_owned() } else { format!("`{}`", setting.value) };
        let comment = setting.comment.replace('|', "\\|");
        text += &format!("| `{}` | {default} | {comment} |\n", setting.name);
    }
    text
}

#[test]
fn the_page_lists_every_setting_as_it_is() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    if std::env::var_os("UPDATE_SETTINGS").is_some() {
        std::fs::write(&path, page()).expect("the page is writable");
        return;
    }
    let found = std::fs::read_to_string(&path).expect("the page");
    assert!(found == page(), "docs/settings.md is out of date; run: {COMMAND}");
}

/// A new setting replaces one that nobody needs any more.
#[test]
fn there_are_no_more_settings_than_a_person_can_hold() {
    let count = documented().len();
    assert!(count <= 120, "{count} settings");
}
