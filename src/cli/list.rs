//! `attnproof list`.

use attnproof_cases::tiers::Tier;

use crate::exit::{Exit, Failure, OrExit as _};
use crate::select::Selection;

use super::args::{ListArgs, Selection as Args};
use super::select;

/// Prints the selected cases.
pub(super) fn list(args: &ListArgs) -> Result<Exit, Failure> {
    let selection = select(&args.selection, Tier::Smoke)?;
    let mut text = if args.ids { ids(&selection) } else { described(&selection) };
    if selection.cases.is_empty() {
        text = String::new();
        eprintln!("no case matches {}", filters(&args.selection));
    }
    super::print(&text).or_exit(Exit::Usage)?;
    Ok(if selection.cases.is_empty() { Exit::Nothing } else { Exit::Pass })
}

/// The filters of a selection in words.
pub(super) fn filters(args: &Args) -> String {
    let all: Vec<_> = args.only.iter().chain(&args.filter).map(|f| format!("'{f}'")).collect();
    if all.is_empty() { "the selection".to_owned() } else { all.join(" or ") }
}

fn ids(selection: &Selection) -> String {
    let pairs = selection.cases.iter().flat_map(|(case, layouts)| layouts.iter().map(move |l| (case, l)));
    pairs.map(|(case, layout)| case.id_for(layout.name()) + "\n").collect()
}

fn described(selection: &Selection) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for (case, layouts) in &selection.cases {
        // writing to a String cannot fail
        let _ = writeln!(text, "{}\n    {}", case.id(), case.why);
        if layouts.len() < attnproof_layouts::kind::LayoutKind::ALL.len() {
            let names: Vec<_> = layouts.iter().map(|l| l.name()).collect();
            let _ = writeln!(text, "    layouts: {}", names.join(", "));
        }
    }
    let _ = writeln!(text, "{} cases, {} case-layout pairs", selection.cases.len(), selection.pairs());
    text
}
