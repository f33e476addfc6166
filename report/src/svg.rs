//! Inline SVG for the HTML report: the matrix, the share of the bound per case, read amplification per layout.
//!
//! Pictures carry classes, never colours, so that the page's style sheet rules in light and in dark; every mark has
//! a title, and no meaning rests on colour alone.

use std::fmt::Write;

use crate::evidence::{self, WORD};
use crate::format::{clean, sig};
use crate::model::Class;
use crate::summary::{Cell, Target};

/// Width of a character of the 12 px label font, generous, in user units.
const CHAR: f64 = 6.6;
/// Longest label, in characters.
const LABEL: usize = 36;
/// Height of a line, in user units.
const LINE: f64 = 22.0;

/// Cases by layouts; at most `most` of each, the rest is counted.
pub fn matrix(target: &Target<'_>, most: usize) -> String {
    let cases = target.cases.len().min(most);
    let layouts = target.layouts.len().min(most);
    let column = 36.0;
    let left = label_width(&target.cases[..cases]);
    let longest = label_width(&target.layouts[..layouts]);
    // Layout names rise at 60 degrees.
    let top = longest * 0.87 + 14.0;
    let width = left + layouts as f64 * column + longest * 0.5;
    let height = top + cases as f64 * LINE + cut_height(target.cases.len(), cases) + 4.0;
    let mut svg = open(width, height, &format!("Status of each case on each layout, {}", target.label()));
    for (l, layout) in target.layouts.iter().take(layouts).enumerate() {
        let x = left + (l as f64 + 0.5) * column;
        let y = top - 8.0;
        let _ =
            write!(svg, "<text transform=\"translate({x:.1} {y:.1}) rotate(-60)\">{}</text>", label(layout));
    }
    for (c, name) in target.cases.iter().take(cases).enumerate() {
        let y = top + c as f64 * LINE;
        row_label(&mut svg, left, y, name);
        for l in 0..layouts {
            let Some(cell) = target.cells.get(&(c, l)) else { continue };
            let x = left + l as f64 * column;
            let class = cell.status.class();
            let _ = write!(
                svg,
                "<g class=\"c {}\"><title>{}</title><rect x=\"{:.1}\" y=\"{:.1}\" width=\"32\" height=\"18\" rx=\"4\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
                class.word(),
                xml(&cell_title(cell)),
                x + 2.0,
                y + 2.0,
                x + 18.0,
                y + 15.0,
                class.glyph(),
            );
        }
    }
    cut(&mut svg, target.cases.len(), cases, height, "cases");
    svg.push_str("</svg>");
    svg
}

/// The name of a case before its line, which begins at `y`.
fn row_label(svg: &mut String, left: f64, y: f64, name: &str) {
    let (x, y) = (left - 8.0, y + 15.0);
    let _ = write!(svg, "<text class=\"end\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", label(name));
}

/// Share of the bound per case on a logarithmic axis: a bar to the largest of all layouts, a dot for each layout, a
/// line where the bound is used up. At most `most` cases, the rest is counted.
pub fn budget(target: &Target<'_>, most: usize) -> String {
    let cases = target.cases.len().min(most);
    let left = label_width(&target.cases[..cases]);
    let plot = 230.0;
    let top = 28.0;
    let width = left + plot + 66.0;
    let bottom = top + cases as f64 * LINE;
    let height = bottom + cut_height(target.cases.len(), cases) + 6.0;
    let axis = Axis::of(target, left, plot);
    let mut svg =
        open(width, height, &format!("Share of the error bound used by each case, {}", target.label()));
    for decade in axis.low..=axis.high {
        let x = axis.at(libm::pow(10.0, f64::from(decade)));
        let class = if decade == 0 { "limit" } else { "rule" };
        let _ = write!(svg, "<path class=\"{class}\" d=\"M{x:.1} {:.1}V{bottom:.1}\"/>", top - 6.0);
        if decade == 0 || axis.high - axis.low <= 4 || decade % 2 == 0 {
            let name =
                if decade == 0 { "limit".to_owned() } else { sig(libm::pow(10.0, f64::from(decade)), 1) };
            let _ =
                write!(svg, "<text class=\"mid small\" x=\"{x:.1}\" y=\"{:.1}\">{name}</text>", top - 10.0);
        }
    }
    for (c, name) in target.cases.iter().take(cases).enumerate() {
        let y = top + c as f64 * LINE;
        row_label(&mut svg, left, y, name);
        budget_line(&mut svg, target, c, &axis, y);
    }
    cut(&mut svg, target.cases.len(), cases, height, "cases");
    svg.push_str("</svg>");
    svg
}

/// Bar, dots and figure of one case.
fn budget_line(svg: &mut String, target: &Target<'_>, case: usize, axis: &Axis, y: f64) {
    let rows = || target.case_rows(case);
    let infinite = rows().any(|row| row.budget_used.is_none() && row.worst.is_some());
    let finite = target.case_budget(case);
    let (end, value) = match finite {
        _ if infinite => (axis.left + axis.plot, "\u{221e}".to_owned()),
        Some(used) => (axis.at(used), sig(used, 2)),
        None => (axis.left, "not judged".to_owned()),
    };
    let side = |over: bool| if over { Class::Fail.word() } else { Class::Pass.word() };
    let class = side(infinite || finite.is_some_and(|used| used > 1.0));
    let title = rows().map(evidence::title).take(12).collect::<Vec<_>>().join("\n");
    let _ = write!(svg, "<g class=\"b {class}\"><title>{}</title>", xml(&title));
    let _ = write!(
        svg,
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"8\" rx=\"2\"/>",
        axis.left,
        y + 7.0,
        (end - axis.left).max(1.0)
    );
    for used in rows().filter_map(|row| row.budget_used) {
        let _ = write!(
            svg,
            "<circle class=\"{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"/>",
            side(used > 1.0),
            axis.at(used),
            y + 11.0
        );
    }
    let x = axis.left + axis.plot + 8.0;
    let _ = write!(svg, "<text class=\"small\" x=\"{x:.1}\" y=\"{:.1}\">{value}</text></g>", y + 15.0);
}

/// A logarithmic axis from `10^low` to `10^high`; what lies outside is drawn at its end.
struct Axis {
    left: f64,
    plot: f64,
    low: i32,
    high: i32,
}

impl Axis {
    fn of(target: &Target<'_>, left: f64, plot: f64) -> Self {
        let values = || target.rows().filter_map(|row| row.budget_used);
        let smallest = values().filter(|&x| x > 0.0).fold(0.1, f64::min);
        let largest = values().filter(|x| x.is_finite()).fold(10.0, f64::max);
        let low = (libm::floor(libm::log10(smallest)) as i32).clamp(-8, -1);
        let high = (libm::ceil(libm::log10(largest)) as i32).clamp(1, 8);
        Self { left, plot, low, high }
    }

    fn at(&self, value: f64) -> f64 {
        let (low, high) = (f64::from(self.low), f64::from(self.high));
        let log = if value > 0.0 { libm::log10(value).clamp(low, high) } else { low };
        self.left + self.plot * (log - low) / (high - low)
    }
}

/// Read amplification per layout: three bars each, from 0, with a line at 1. At most `most` layouts.
pub fn reads(target: &Target<'_>, most: usize) -> String {
    let layouts = target.reads.len().min(most);
    let (left, plot, bar) = (78.0, 300.0, 14.0);
    let group = 3.0 * bar + 26.0;
    let top = 22.0;
    let bottom = top + layouts as f64 * group;
    let height = bottom + cut_height(target.reads.len(), layouts) + 4.0;
    let measures = |i: usize| {
        let sums = &target.reads[i].reads;
        [
            ("requested", "r1", sums.requested_ratio()),
            ("sectors", "r2", sums.sector_ratio()),
            ("lines", "r3", sums.line_ratio()),
        ]
    };
    let largest = (0..layouts).flat_map(measures).filter_map(|(_, _, x)| x).fold(1.0, f64::max);
    let mut svg =
        open(left + plot + 52.0, height, &format!("Read amplification of each layout, {}", target.label()));
    let one = left + plot / largest;
    let _ = write!(
        svg,
        "<path class=\"limit\" d=\"M{one:.1} {top:.1}V{bottom:.1}\"/>\
         <text class=\"mid small\" x=\"{one:.1}\" y=\"{:.1}\">1 = each byte once</text>",
        top - 6.0
    );
    for i in 0..layouts {
        let y = top + i as f64 * group;
        let layout = label(target.reads[i].layout);
        let _ = write!(svg, "<text class=\"strong\" x=\"0\" y=\"{:.1}\">{layout}</text>", y + 14.0);
        for (m, (name, class, value)) in measures(i).into_iter().enumerate() {
            let y = y + 18.0 + m as f64 * bar;
            let length = value.map_or(0.0, |x| plot * x / largest);
            let figure = crate::format::ratio(value);
            let _ = write!(
                svg,
                "<g class=\"{class}\"><title>{layout}, {name}: {figure}</title>\
                 <text class=\"end small\" x=\"{:.1}\" y=\"{:.1}\">{name}</text>\
                 <rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{length:.1}\" height=\"10\" rx=\"2\"/>\
                 <text class=\"small\" x=\"{:.1}\" y=\"{:.1}\">{figure}</text></g>",
                left - 8.0,
                y + 9.0,
                y,
                left + length + 6.0,
                y + 9.0,
            );
        }
    }
    cut(&mut svg, target.reads.len(), layouts, height, "layouts");
    svg.push_str("</svg>");
    svg
}

fn open(width: f64, height: f64, name: &str) -> String {
    let name = xml(name);
    format!(
        "<svg role=\"img\" aria-label=\"{name}\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\">"
    )
}

fn cell_title(cell: &Cell<'_>) -> String {
    let mut lines: Vec<String> = cell.rows.iter().take(4).map(|row| evidence::title(row)).collect();
    if cell.rows.len() > 4 {
        lines.push(format!("... {} more", cell.rows.len() - 4));
    }
    lines.join("\n")
}

fn cut_height(total: usize, shown: usize) -> f64 {
    if total > shown { LINE } else { 0.0 }
}

fn cut(svg: &mut String, total: usize, shown: usize, height: f64, what: &str) {
    if total > shown {
        let _ =
            write!(svg, "<text x=\"0\" y=\"{:.1}\">... {} more {what}</text>", height - 8.0, total - shown);
    }
}

fn label_width(names: &[&str]) -> f64 {
    let longest = names.iter().map(|name| clean(name, LABEL).chars().count()).max().unwrap_or(0);
    longest as f64 * CHAR + 12.0
}

fn label(name: &str) -> String {
    xml(&clean(name, LABEL.min(WORD)))
}

/// `text` as character data or attribute value of XML and HTML.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
