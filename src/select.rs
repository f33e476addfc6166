//! Which cases run in which layouts.

use std::path::{Path, PathBuf};

use attnproof_cases::case::{Case, Family};
use attnproof_cases::catalogue::{self, CatalogueError};
use attnproof_cases::select::{Filter, FilterError};
use attnproof_cases::tiers::Tier;
use attnproof_cases::trace::{self, TraceError, TraceOptions, TraceSummary};
use attnproof_layouts::kind::LayoutKind;

/// Where cases come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// The catalogue.
    Tier(Tier),
    /// These.
    Cases(Vec<Case>),
    /// A file in the catalogue's form.
    File(PathBuf),
    /// The first requests of a trace.
    Trace(PathBuf, usize),
}

/// Why a selection cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    /// A file that cannot be read.
    #[error("{}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A case file that is not one.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// A trace that is not one.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A filter that cannot be understood.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// No such layout.
    #[error("unknown layout '{given}'; layouts are {}", LayoutKind::ALL.map(LayoutKind::name).join(", "))]
    Layout {
        /// What was given.
        given: String,
    },
    /// No such tier.
    #[error("unknown tier '{given}'; tiers are {}", Tier::ALL.map(Tier::name).join(", "))]
    Tier {
        /// What was given.
        given: String,
    },
}

/// Cases, each with the layouts it runs in.
#[derive(Debug)]
pub struct Selection {
    /// In catalogue order; a case has at least one layout.
    pub cases: Vec<(Case, Vec<LayoutKind>)>,
    /// What became of a trace.
    pub trace: Option<TraceSummary>,
}

impl Selection {
    /// (case, layout) pairs.
    pub fn pairs(&self) -> usize {
        self.cases.iter().map(|(_, layouts)| layouts.len()).sum()
    }

    /// Layouts that some case runs in.
    pub fn layouts(&self) -> usize {
        let used = |kind: &LayoutKind| self.cases.iter().any(|(_, layouts)| layouts.contains(kind));
        LayoutKind::ALL.iter().filter(|kind| used(kind)).count()
    }
}

fn read(file: &Path) -> Result<String, SelectError> {
    std::fs::read_to_string(file).map_err(|source| SelectError::Read { file: file.to_owned(), source })
}

/// The tier called `name`.
///
/// # Errors
/// [`SelectError::Tier`].
pub fn tier(name: &str) -> Result<Tier, SelectError> {
    Tier::parse(name).ok_or_else(|| SelectError::Tier { given: name.to_owned() })
}

/// Takes the cases of `source` that match any of `filters` (all, if there are none), in the layouts named.
///
/// # Errors
/// [`SelectError`]; an empty selection is not an error here.
pub fn select(source: &Source, filters: &[String], layouts: &[String]) -> Result<Selection, SelectError> {
    let filters = filters.iter().map(|f| Filter::parse(f)).collect::<Result<Vec<_>, _>>()?;
    let named =
        |name: &String| LayoutKind::parse(name).ok_or_else(|| SelectError::Layout { given: name.clone() });
    let named = layouts.iter().map(named).collect::<Result<Vec<_>, _>>()?;
    let wanted = |kind: &LayoutKind| named.is_empty() || named.contains(kind);
    let (cases, trace) = load(source)?;
    let with_layouts = |case: Case| {
        let fits =
            |kind: &LayoutKind| filters.is_empty() || filters.iter().any(|f| f.matches(&case, kind.name()));
        let layouts: Vec<_> = LayoutKind::ALL.into_iter().filter(wanted).filter(fits).collect();
        (!layouts.is_empty()).then_some((case, layouts))
    };
    Ok(Selection { cases: cases.into_iter().filter_map(with_layouts).collect(), trace })
}

fn load(source: &Source) -> Result<(Vec<Case>, Option<TraceSummary>), SelectError> {
    Ok(match source {
        Source::Tier(tier) => (tier.cases(), None),
        Source::Cases(cases) => (cases.clone(), None),
        Source::File(file) => {
            (catalogue::from_toml(&read(file)?, &file.display().to_string(), Family::User)?, None)
        }
        Source::Trace(file, requests) => {
            let options = TraceOptions::default();
            let (case, summary) =
                trace::mooncake(&read(file)?, &file.display().to_string(), *requests, options)?;
            (vec![case], Some(summary))
        }
    })
}
