//! What a failure looks like: the oracle is asked again under every hypothesis of its fault library, and the kernel again
//! with one-hot values that read back which keys it attended to and with what weight.

mod again;
mod evidence;
mod xray;

use attnproof_cases::case::CaseError;
use attnproof_layouts::kind::LayoutKind;
use attnproof_layouts::launch::Schedule;
use attnproof_layouts::tables::Piece;
use attnproof_oracle::fault::{Fit, ids, rank};
use attnproof_oracle::{Model, OracleError, bounds};
use attnproof_report::model::{Diagnosis, Guess, Num};
use attnproof_shaders::results::Outputs;

use crate::kernel::Kernel;
use crate::runner::prepare::Prepared;
use again::Again;
use evidence::Evidence;

/// Up to this multiple of the bound a hypothesis explains the outputs.
const FITS: f64 = 1.0;

/// Outputs of a check that were not accepted.
#[derive(Debug, Clone)]
pub struct Failed {
    /// Index of the check.
    pub check: usize,
    /// What the kernel wrote.
    pub outputs: Outputs,
    /// How the work was split.
    pub schedule: Schedule,
    /// Where each row of the batch is read with a break.
    pub pieces: Vec<Vec<Piece>>,
    /// The element that is farthest off: query token of the batch and query head.
    pub worst: (usize, usize),
}

/// Why there is no diagnosis.
#[derive(Debug, thiserror::Error)]
pub enum DiagnoseError {
    /// The case.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// The oracle.
    #[error(transparent)]
    Oracle(#[from] OracleError),
}

/// Names the fault behind `failed`, as well as it can be named.
///
/// # Errors
/// [`DiagnoseError`]: the case or the oracle refused what they accepted before.
pub fn diagnose(
    prepared: &Prepared<'_>,
    layout: LayoutKind,
    seed: u64,
    failed: &Failed,
    kernel: &mut dyn Kernel,
) -> Result<Diagnosis, DiagnoseError> {
    let fits = fits(prepared, seed, failed, &kernel.model())?;
    let guess = |fit: &Fit| Guess { id: fit.id.clone(), says: fit.says.clone(), used: Num(fit.used) };
    let explained = fits.first().is_some_and(|best| best.used <= FITS);
    let mut again = Again { prepared, layout, seed, failed, kernel };
    let unwritten = again.reads_unwritten() || !explained && xray::has_foreign_values(&mut again);
    let seen = if explained { Vec::new() } else { xray::picture(&mut again, unwritten)? };
    Ok(Diagnosis { unwritten, explained, best: fits.first().map(guess), next: fits.get(1).map(guess), seen })
}

/// Names of the hypotheses that the library has for the failing check.
///
/// # Errors
/// As [`diagnose`].
pub fn names(prepared: &Prepared<'_>, seed: u64, failed: &Failed) -> Result<Vec<String>, DiagnoseError> {
    let evidence = Evidence::of(prepared, seed, failed.check)?;
    Ok(evidence.map_or_else(Vec::new, |evidence| ids(&evidence.scene(prepared, failed))))
}

/// The hypotheses in the order in which they explain the outputs.
fn fits(
    prepared: &Prepared<'_>,
    seed: u64,
    failed: &Failed,
    model: &Model,
) -> Result<Vec<Fit>, DiagnoseError> {
    let Some(evidence) = Evidence::of(prepared, seed, failed.check)? else { return Ok(Vec::new()) };
    let bounds = evidence
        .rows()
        .iter()
        .map(|row| bounds(&prepared.spec, row, model).map(|(_, bounds)| bounds))
        .collect::<Result<Vec<_>, _>>()?;
    let got = evidence.answers(&prepared.spec, &failed.outputs);
    Ok(rank(&evidence.scene(prepared, failed), &got, &bounds))
}
