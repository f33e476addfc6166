//! Drives one case's script through the KV manager of a layout into a physical store that lives as long as the script.

use std::collections::BTreeMap;
use std::ops::Range;

use attnproof_cases::case::Case;
use attnproof_cases::fill::{Content, TokenRow};
use attnproof_cases::script::Op;
use attnproof_layouts::fault::ManagerFault;
use attnproof_layouts::kind::LayoutKind;
use attnproof_layouts::manager::{Manager, ManagerError, Placed, PoolConfig, Stats};
use attnproof_layouts::pack::{Geometry, PackError, RowCodes, Store};

/// Tokens a growth extent holds.
const EXTENT_TOKENS: u32 = 64;

/// Why a script could not go on. All of these are faults of the KV manager or of the case, not of a kernel.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The manager refused an operation that the script needs.
    #[error("script line {line}: {source}")]
    Refused {
        /// Script line.
        line: usize,
        /// The manager's reason.
        source: ManagerError,
    },
    /// The pool cannot be made.
    #[error("pool: {0}")]
    Pool(ManagerError),
    /// The store cannot be made.
    #[error("store: {0}")]
    Store(#[from] PackError),
    /// An invariant of the manager or of the store is broken.
    #[error("script line {line}: {rule}: {detail}")]
    Broken {
        /// Script line.
        line: usize,
        /// The rule: `I2` to `I17`, `count` for running totals, `hits` for a prompt that finds more or fewer cached
        /// blocks than its script says.
        rule: &'static str,
        /// Rows, blocks and numbers.
        detail: String,
    },
}

/// A script under way.
pub struct Drive<'c> {
    case: &'c Case,
    content: Content<'c>,
    /// The manager, in the state after the last operation.
    pub manager: Manager,
    /// The bytes.
    pub store: Store,
    rows: BTreeMap<String, (Vec<u64>, u64)>,
    foreign: u64,
    /// Whether everything is checked after every operation.
    careful: bool,
}

fn codes(row: &TokenRow) -> RowCodes<'_> {
    RowCodes { k: &row.k, v: &row.v, k_scale: &row.k_scale, v_scale: &row.v_scale }
}

impl<'c> Drive<'c> {
    /// An empty pool for `case` in `layout`. With `careful`, invariants and contents are checked after every operation.
    ///
    /// # Errors
    /// [`DriveError::Pool`] or [`DriveError::Store`] when the case's pool is out of their limits.
    pub fn new(case: &'c Case, layout: LayoutKind, seed: u64, careful: bool) -> Result<Self, DriveError> {
        Self::made(case, layout, seed, careful, None)
    }

    /// The same with a KV manager that is wrong on purpose.
    ///
    /// # Errors
    /// As [`Drive::new`].
    pub fn with_fault(
        case: &'c Case,
        layout: LayoutKind,
        seed: u64,
        careful: bool,
        fault: &ManagerFault,
    ) -> Result<Self, DriveError> {
        Self::made(case, layout, seed, careful, Some(fault))
    }

    fn made(
        case: &'c Case,
        layout: LayoutKind,
        seed: u64,
        careful: bool,
        fault: Option<&ManagerFault>,
    ) -> Result<Self, DriveError> {
        let content = Content::new(case, seed);
        let config = PoolConfig {
            blocks: case.blocks,
            block_size: case.block_size,
            first_block: case.first_block,
            window: case.window,
            release: case.release,
            extent_tokens: EXTENT_TOKENS,
        };
        let geometry = Geometry {
            kind: layout,
            elem: case.kv,
            kv_heads: case.shape.kv_heads as u32,
            d: case.shape.d as u32,
            dv: case.shape.dv as u32,
            block_size: case.block_size,
            blocks: case.blocks,
            slot_pad: case.slot_pad,
            k_scale: case.k_scale,
            v_scale: case.v_scale,
        };
        let (k_scales, v_scales) = content.static_scales();
        let store = Store::new(geometry, (&k_scales, &v_scales))?;
        let (manager, store) = match fault {
            None => (Manager::new(layout, config), store),
            Some(fault) => (Manager::with_fault(layout, config, fault), store.with_fault(fault)),
        };
        Ok(Self {
            case,
            manager: manager.map_err(DriveError::Pool)?,
            store,
            content,
            rows: BTreeMap::new(),
            foreign: 0,
            careful,
        })
    }

    /// The same with V in X-ray: see [`Content::with_xray`].
    #[must_use]
    pub fn with_xray(self, pass: usize) -> Self {
        Self { content: self.content.with_xray(pass), ..self }
    }

    /// Carries out one operation; a `check` does nothing here.
    ///
    /// # Errors
    /// [`DriveError`]; the script cannot go on.
    pub fn step(&mut self, op: &Op, line: usize) -> Result<(), DriveError> {
        self.apply(op, line)?;
        if self.careful || matches!(op, Op::Invariants | Op::Check { .. } | Op::ExpectFail(_)) {
            self.manager.check_invariants().map_err(|v| DriveError::Broken {
                line,
                rule: v.rule,
                detail: v.detail,
            })?;
        }
        if self.careful { self.check_content(line) } else { Ok(()) }
    }

    fn apply(&mut self, op: &Op, line: usize) -> Result<(), DriveError> {
        let refused = |source| DriveError::Refused { line, source };
        match op {
            Op::Prefill { row, tokens, salt, hits } => {
                let before = self.manager.stats();
                let placed = self.prefill(row, tokens, *salt, line)?;
                if let Some(hits) = *hits {
                    self.check_hits(row, hits, &placed, &before, line)?;
                }
            }
            Op::Resume { row, tokens, salt } => {
                self.prefill(row, tokens, *salt, line)?;
            }
            Op::Append { row, tokens } => {
                for &token in tokens {
                    let placed = self.manager.append(row, token).map_err(refused)?;
                    if let Some((history, _)) = self.rows.get_mut(row) {
                        history.push(token);
                    }
                    self.place(&placed, row);
                }
            }
            Op::Fork { parent, child } => {
                let placed = self.manager.fork(parent, child).map_err(refused)?;
                if let Some(history) = self.rows.get(parent).cloned() {
                    self.rows.insert(child.clone(), history);
                }
                self.place(&placed, child);
            }
            Op::Free { rows } => {
                for row in rows {
                    self.manager.free(row).map_err(refused)?;
                    self.rows.remove(row);
                }
            }
            Op::Preempt { row } => {
                self.manager.free(row).map_err(refused)?;
                self.rows.remove(row);
            }
            Op::Pressure { blocks } => {
                let placed = self.manager.pressure(*blocks).map_err(refused)?;
                self.place(&placed, "");
            }
            Op::ExpectFail(inner) => self.expect_refusal(inner, line)?,
            Op::Check { .. } | Op::Invariants => {}
        }
        Ok(())
    }

    fn prefill(&mut self, row: &str, tokens: &[u64], salt: u64, line: usize) -> Result<Placed, DriveError> {
        let refused = |source| DriveError::Refused { line, source };
        let placed = self.manager.prefill(row, tokens, salt).map_err(refused)?;
        if !tokens.is_empty() && placed.cached as usize >= tokens.len() {
            let detail = format!("row {row}: a full prefix hit leaves no token to compute");
            return Err(DriveError::Broken { line, rule: "I11", detail });
        }
        self.rows.insert(row.to_owned(), (tokens.to_vec(), salt));
        self.place(&placed, row);
        Ok(placed)
    }

    /// A prompt found exactly `hits` tokens in whole blocks, and the running totals, `before` it and now, say what
    /// was placed.
    fn check_hits(
        &self,
        row: &str,
        hits: u32,
        placed: &Placed,
        before: &Stats,
        line: usize,
    ) -> Result<(), DriveError> {
        let copied: u32 = placed.copies.iter().map(|copy| copy.count).sum();
        let found = placed.cached.saturating_sub(copied);
        if found != hits {
            let detail = format!(
                "row {row}: whole blocks of {found} prompt tokens came from the prefix cache, expected {hits}"
            );
            return Err(DriveError::Broken { line, rule: "hits", detail });
        }
        let after = self.manager.stats();
        let totals = |stats: &Stats| [stats.hit_blocks, stats.hit_tokens, stats.mid_block_tokens];
        let [blocks, reused, mid_block] = totals(before);
        let due = [
            blocks + u64::from(hits / self.case.block_size),
            reused + u64::from(placed.cached),
            mid_block + u64::from(copied),
        ];
        if totals(&after) == due {
            return Ok(());
        }
        let detail = format!(
            "row {row}: hit blocks, hit tokens and tokens copied in mid-block are counted as {:?}, expected {due:?}",
            totals(&after)
        );
        Err(DriveError::Broken { line, rule: "count", detail })
    }

    fn expect_refusal(&mut self, op: &Op, line: usize) -> Result<(), DriveError> {
        let before = self.manager.clone();
        match self.apply(op, line) {
            Err(DriveError::Refused { .. }) if before.same_state(&self.manager) => Ok(()),
            Err(DriveError::Refused { .. }) => {
                let detail = "a refused operation changed the manager's state".to_owned();
                Err(DriveError::Broken { line, rule: "I10", detail })
            }
            Err(other) => Err(other),
            Ok(()) => {
                let detail = "an operation that must be refused was carried out".to_owned();
                Err(DriveError::Broken { line, rule: "I10", detail })
            }
        }
    }

    fn place(&mut self, placed: &Placed, row: &str) {
        for &block in &placed.overwritten {
            self.foreign += 1;
            let foreign = self.content.foreign(self.foreign);
            for slot in block * self.case.block_size..(block + 1) * self.case.block_size {
                self.store.write(slot, &codes(&foreign));
            }
        }
        for copy in &placed.copies {
            self.store.copy(copy);
        }
        let (Some(first), Some(last), Some((tokens, salt))) =
            (placed.writes.first(), placed.writes.last(), self.rows.get(row))
        else {
            return;
        };
        let range = first.position as usize..last.position as usize + 1;
        let computed = self.content.rows(tokens, *salt, range);
        for write in &placed.writes {
            self.store.write(write.slot, &codes(&computed[(write.position - first.position) as usize]));
        }
    }

    /// The physical slot of each position of `row` that it still holds.
    fn slots(&self, row: &str) -> Option<(Range<u32>, Vec<u32>)> {
        let view = self.manager.row(row)?;
        let size = self.case.block_size;
        let range = view.released * size..view.len;
        let slot = |p: u32| view.blocks[(p / size) as usize].map(|block| block * size + p % size);
        Some((range.clone(), range.filter_map(slot).collect()))
    }

    /// Every slot that a row can read holds what that row computed: no wrong sharing, no lost copy, no stale scale.
    fn check_content(&self, line: usize) -> Result<(), DriveError> {
        for (name, (tokens, salt)) in &self.rows {
            let Some((positions, slots)) = self.slots(name) else { continue };
            let range = positions.start.min(positions.end) as usize..positions.end as usize;
            let expected = self.content.rows(tokens, *salt, range);
            for ((position, slot), row) in positions.zip(slots).zip(&expected) {
                if !self.store.holds(slot, &codes(row)) {
                    let detail =
                        format!("row {name}, position {position}: slot {slot} holds another token's bytes");
                    return Err(DriveError::Broken { line, rule: "I8", detail });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
