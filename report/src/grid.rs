//! Tables of figures, built once for every renderer.

use crate::evidence::WORD;
use crate::format::{clean, grouped, percent, ratio};
use crate::summary::{Summary, Target};

/// What the ratios of [`reads`] mean.
pub(crate) const READS_NOTE: &str = "requested: KV bytes loaded per byte needed; sectors, lines: bytes of the 32-byte \
    sectors and 128-byte lines touched per byte of distinct tokens; metadata: table and scale bytes per byte needed; \
    as predicted: rows whose measured counts all equal the predicted ones. Ratios of sums over the cases that every \
    layout here passed.";
/// Units of [`counts`].
pub(crate) const COUNTS_NOTE: &str = "prompt and mid block in tokens; copies, evicted, reused and released in blocks; \
    hit: prompt tokens found in the prefix cache.";
/// Said where layouts must not be compared.
pub(crate) const INCOMPARABLE: &str =
    "No case passed on every layout: do not compare these ratios with each other.";

/// A table whose first column holds names and whose other columns hold figures.
pub(crate) struct Grid {
    /// Column titles.
    pub(crate) header: Vec<String>,
    /// Rows, each as long as the header.
    pub(crate) rows: Vec<Vec<String>>,
}

impl Grid {
    /// Rows for columns: for a page that is narrow and a table that is wide.
    pub(crate) fn turned(self) -> Self {
        let mut columns =
            std::iter::once(self.header).chain(self.rows).map(Vec::into_iter).collect::<Vec<_>>();
        let mut next = || columns.iter_mut().filter_map(Iterator::next).collect::<Vec<String>>();
        let header = next();
        Self { header, rows: std::iter::from_fn(|| Some(next()).filter(|row| !row.is_empty())).collect() }
    }
}

/// Read amplification per layout.
pub(crate) fn reads(target: &Target<'_>) -> Grid {
    let header = ["layout", "requested", "sectors", "lines", "metadata", "as predicted"];
    let rows = target.reads.iter().map(|layout| {
        let sums = &layout.reads;
        vec![
            clean(layout.layout, WORD),
            ratio(sums.requested_ratio()),
            ratio(sums.sector_ratio()),
            ratio(sums.line_ratio()),
            percent(sums.metadata_share()),
            format!("{} of {}", layout.predicted, layout.rows),
        ]
    });
    Grid { header: header.map(str::to_owned).to_vec(), rows: rows.collect() }
}

/// What the KV manager did, per layout.
pub(crate) fn counts(summary: &Summary<'_>) -> Grid {
    let header = [
        "layout",
        "cases",
        "checks",
        "prompt",
        "hit",
        "mid block",
        "copies",
        "evicted",
        "reused",
        "released",
    ];
    let rows = summary.counts.iter().map(|layout| {
        let sums = &layout.counts;
        vec![
            clean(layout.layout, WORD),
            layout.cases.to_string(),
            grouped(sums.checks),
            grouped(sums.prompt_tokens),
            percent(sums.hit_rate()),
            grouped(sums.mid_block_tokens),
            grouped(sums.copies),
            grouped(sums.evictions),
            grouped(sums.reused_blocks),
            grouped(sums.released_blocks),
        ]
    });
    Grid { header: header.map(str::to_owned).to_vec(), rows: rows.collect() }
}
