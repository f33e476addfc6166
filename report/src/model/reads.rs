//! Measured reads of one dispatch, and the ratios taken from them.

use serde::{Deserialize, Serialize};

/// Bytes of a word, the unit of every load the instrumented kernels make.
pub(crate) const WORD_BYTES: u64 = 4;
/// Bytes of a sector: what NVIDIA's L1 and L2 fetch ("Memory Workload Analysis", Nsight Compute manual).
pub(crate) const SECTOR_BYTES: u64 = 32;
/// Bytes of a cache line: four sectors.
pub(crate) const LINE_BYTES: u64 = 128;

/// What one binding was read for: all loads, and the distinct granules they touched in the whole dispatch.
/// Granules are counted from the start of the binding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touched {
    /// Loads requested, in 4-byte words; a word loaded twice counts twice.
    pub loads: u64,
    /// Distinct 4-byte words.
    pub words: u64,
    /// Distinct 32-byte sectors.
    pub sectors: u64,
    /// Distinct 128-byte lines.
    pub lines: u64,
}

impl Touched {
    /// The sum of two counts.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            loads: self.loads.saturating_add(other.loads),
            words: self.words.saturating_add(other.words),
            sectors: self.sectors.saturating_add(other.sectors),
            lines: self.lines.saturating_add(other.lines),
        }
    }
}

/// The four counts that the layout's tables predict, kept when they differ from the measured ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Predicted {
    /// Reads of K.
    pub k: Touched,
    /// Reads of V.
    pub v: Touched,
    /// Reads of block, span and group tables.
    pub tables: Touched,
    /// Reads of quantisation scales.
    pub scales: Touched,
}

/// Reads of one row, measured by the instrumented kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reads {
    /// Reads of K.
    pub k: Touched,
    /// Reads of V.
    pub v: Touched,
    /// Reads of block, span and group tables.
    pub tables: Touched,
    /// Reads of quantisation scales.
    pub scales: Touched,
    /// Bytes the rows need if nothing is shared: sum over rows of visible keys times the bytes of a token.
    pub needed_bytes: u64,
    /// Bytes of the distinct tokens needed; the same in every layout, so a duplicate counts against a layout.
    pub unique_bytes: u64,
    /// Whether the prediction from the tables equals the measurement in every count.
    pub predicted_equal: bool,
    /// The prediction, present only when it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Box<Predicted>>,
}

impl Reads {
    /// KV bytes requested per byte needed; none when nothing is needed.
    pub fn requested_ratio(&self) -> Option<f64> {
        ratio(self.k.plus(self.v).loads, WORD_BYTES, self.needed_bytes)
    }

    /// KV bytes of the 32-byte sectors touched per byte of distinct tokens; none when nothing is needed.
    pub fn sector_ratio(&self) -> Option<f64> {
        ratio(self.k.plus(self.v).sectors, SECTOR_BYTES, self.unique_bytes)
    }

    /// KV bytes of the 128-byte lines touched per byte of distinct tokens; none when nothing is needed.
    pub fn line_ratio(&self) -> Option<f64> {
        ratio(self.k.plus(self.v).lines, LINE_BYTES, self.unique_bytes)
    }

    /// Table and scale bytes requested per KV byte needed; none when nothing is needed.
    pub fn metadata_share(&self) -> Option<f64> {
        ratio(self.tables.plus(self.scales).loads, WORD_BYTES, self.needed_bytes)
    }

    /// Measured reads of two rows together: a ratio of sums, which is what a layout is judged by.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            k: self.k.plus(other.k),
            v: self.v.plus(other.v),
            tables: self.tables.plus(other.tables),
            scales: self.scales.plus(other.scales),
            needed_bytes: self.needed_bytes.saturating_add(other.needed_bytes),
            unique_bytes: self.unique_bytes.saturating_add(other.unique_bytes),
            predicted_equal: self.predicted_equal && other.predicted_equal,
            predicted: None,
        }
    }
}

fn ratio(count: u64, unit: u64, bytes: u64) -> Option<f64> {
    (bytes > 0).then(|| count as f64 * unit as f64 / bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched(loads: u64, words: u64, sectors: u64, lines: u64) -> Touched {
        Touched { loads, words, sectors, lines }
    }

    #[test]
    fn ratios_by_hand() {
        let reads = Reads {
            k: touched(100, 50, 8, 2),
            v: touched(60, 50, 8, 2),
            tables: touched(4, 4, 1, 1),
            scales: touched(6, 6, 1, 1),
            needed_bytes: 320,
            unique_bytes: 256,
            ..Reads::default()
        };
        assert_eq!(reads.requested_ratio(), Some(2.0));
        assert_eq!(reads.sector_ratio(), Some(2.0));
        assert_eq!(reads.line_ratio(), Some(2.0));
        assert_eq!(reads.metadata_share(), Some(0.125));
        assert_eq!(reads.plus(&reads).requested_ratio(), Some(2.0));
    }

    #[test]
    fn nothing_needed_has_no_ratio() {
        assert_eq!(Reads::default().requested_ratio(), None);
        assert_eq!(Reads::default().sector_ratio(), None);
        assert_eq!(Reads::default().line_ratio(), None);
        assert_eq!(Reads::default().metadata_share(), None);
    }
}
