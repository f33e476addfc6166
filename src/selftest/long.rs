//! What must be caught at any length.

use attnproof_cases::case::Case;
use attnproof_cases::tiers::Tier;

/// Keys of the longest row of a case of the long self-test.
pub const KEYS: usize = 65_536;

/// Faults of single keys, blocks, heads, scales, caps and rescales. The rest of the library is a matter of shapes and formats
/// that the short cases have.
pub const FAULTS: [&str; 54] = [
    "window-plus-one",
    "window-minus-one",
    "window-ignored",
    "window-block-floor",
    "window-tile-floor",
    "causal-top-left",
    "causal-minus-one",
    "position-block-floor",
    "head-mod",
    "head-k-mod",
    "head-v-mod",
    "head-zero",
    "head-next",
    "scale-missing",
    "scale-squared",
    "scale-doubled",
    "scale-one-percent",
    "scale-per-mille",
    "scale-log2e",
    "softcap-ignored",
    "softcap-clamp",
    "softcap-twice",
    "softcap-x-tanh",
    "softcap-before-scale",
    "drop-last-token",
    "drop-first-token",
    "drop-middle-token",
    "drop-last-block",
    "drop-first-block",
    "duplicate-middle-token",
    "half-tile",
    "v-of-next-token",
    "v-shifted",
    "adjacent-blocks",
    "entry-past-row",
    "v-page-not-advanced",
    "merge-no-weights",
    "merge-base2",
    "merge-drops-last",
    "merge-first-two",
    "lse-base2",
    "lse-without-max",
    "lse-of-last-part",
    "split-gap",
    "split-overlap",
    "no-rescale-acc",
    "no-rescale-sum",
    "no-rescale",
    "f16-accumulator",
    "max-frozen",
    "not-normalised",
    "one-head-of-one-row",
    "unwritten-last-row",
    "write-past-end",
];

/// The cases with a row of [`KEYS`] keys.
pub fn cases() -> Vec<Case> {
    Tier::Full.cases().into_iter().filter(|case| case.script.longest_row() >= KEYS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_has_all_of_them() {
        let library = attnproof_shaders::fault::library();
        for id in FAULTS {
            assert!(library.iter().any(|fault| fault.id == id), "{id}");
        }
        assert!(cases().len() >= 6);
    }
}
