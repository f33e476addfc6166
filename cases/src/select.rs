//! Filters over cases and layouts.
//!
//! A filter is a list of terms joined by `;` or `,`; all must match. A term is `key=glob` over a key of the id
//! grammar (see [`crate::id`]; `window=*` matches only cases that have a window), or a glob over the name or
//! over `family:name`. A word without `*`, `?` and `:` matches as a part of the name. A whole id is therefore
//! a filter that matches itself.

use wildmatch::WildMatch;

use crate::case::Case;
use crate::id::KEYS;

/// A parsed filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    Field { key: &'static str, glob: String },
    Name(String),
}

/// Why a text is no filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// Nothing between two separators, or an empty filter.
    #[error("filter `{filter}`: term {term} is empty")]
    EmptyTerm {
        /// The whole filter.
        filter: String,
        /// Which term, from 1.
        term: usize,
    },
    /// `key=...` with a key that ids do not have.
    #[error("filter term `{term}`: unknown key `{key}`; keys are {}", KEYS.join(" "))]
    UnknownKey {
        /// The term.
        term: String,
        /// Its key.
        key: String,
    },
}

impl Filter {
    /// Parses a filter.
    ///
    /// # Errors
    /// An empty term or an unknown key.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let terms = text
            .split([';', ','])
            .enumerate()
            .map(|(i, term)| match term.trim() {
                "" => Err(FilterError::EmptyTerm { filter: text.to_owned(), term: i + 1 }),
                term => Term::parse(term),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { terms })
    }

    /// Whether the case on this layout is selected.
    pub fn matches(&self, case: &Case, layout: &str) -> bool {
        let fields = case.fields(Some(layout));
        self.terms.iter().all(|term| match term {
            Term::Field { key, glob } => fields.iter().any(|field| {
                field.key == *key && field.value.as_ref().is_some_and(|value| matches(glob, value))
            }),
            Term::Name(glob) if glob.contains(':') => matches(glob, &case.short_id()),
            Term::Name(glob) if glob.contains(['*', '?']) => {
                matches(glob, &case.name) || matches(glob, &case.short_id())
            }
            Term::Name(word) => case.name.contains(word.as_str()),
        })
    }
}

impl Term {
    fn parse(term: &str) -> Result<Self, FilterError> {
        let Some((key, glob)) = term.split_once('=') else { return Ok(Self::Name(term.to_owned())) };
        match KEYS.into_iter().find(|known| *known == key.trim()) {
            Some(key) => Ok(Self::Field { key, glob: glob.trim().to_owned() }),
            None => Err(FilterError::UnknownKey { term: term.to_owned(), key: key.to_owned() }),
        }
    }
}

/// Whether a glob of literal characters, `*` (any run) and `?` (any one character) matches all of `text`.
fn matches(glob: &str, text: &str) -> bool {
    WildMatch::new(glob).matches(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    fn selected(filter: &str, layout: &str) -> Vec<String> {
        let filter = Filter::parse(filter).expect("a valid filter");
        let cases = catalogue::thirty().into_iter().chain(catalogue::extra());
        cases.filter(|case| filter.matches(case, layout)).map(|case| case.name).collect()
    }

    #[test]
    fn globs() {
        for (glob, text, expected) in [
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("*", "", true),
            ("?", "", false),
            ("*b*b*", "abab", true),
            ("a?c", "abc", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(glob, text), expected, "{glob} on {text}");
        }
    }

    #[test]
    fn terms_select() {
        assert_eq!(selected("mqa", "classic-paged"), ["mqa-16x1"]);
        assert_eq!(selected("decode:mqa-16x1", "classic-paged"), ["mqa-16x1"]);
        assert_eq!(selected("decode:mqa", "classic-paged"), [""; 0], "with a family the name is whole");
        assert_eq!(selected("decode:*", "x").len(), 30);
        assert_eq!(selected("layout=classic*;d=256", "classic-paged"), ["head-dim-256-block-32"]);
        assert_eq!(selected("layout=classic*;d=256", "virtual-contiguous"), [""; 0]);
        assert_eq!(selected("decode:*,window=*,alibi=yes", "x"), ["window-release-reuse-alibi"]);
        assert_eq!(selected("decode:*;d=80;dv=80", "x"), ["head-dim-80"], "defaults can be asked for");
    }

    #[test]
    fn an_id_selects_itself_alone() {
        for case in catalogue::thirty().into_iter().chain(catalogue::extra()) {
            assert_eq!(selected(&case.id_for("classic-paged"), "classic-paged").join(" "), case.name);
            assert_eq!(selected(&case.id_for("classic-paged"), "packed-block-table"), [""; 0]);
        }
    }

    #[test]
    fn bad_filters_are_refused() {
        assert_eq!(
            Filter::parse("mqa;;d=64"),
            Err(FilterError::EmptyTerm { filter: "mqa;;d=64".to_owned(), term: 2 })
        );
        assert!(matches!(Filter::parse(""), Err(FilterError::EmptyTerm { term: 1, .. })));
        let error = Filter::parse("heads=4").expect_err("no such key");
        assert!(error.to_string().contains("unknown key `heads`; keys are layout hq hk"), "{error}");
    }
}
