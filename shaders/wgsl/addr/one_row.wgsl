// A workgroup row of the grid is a row of the batch: its pairs are its own query tokens x heads.
fn pair_find(row: RowRef, index: u32) -> Pair {
    return Pair(index < row.q_len * P.heads_per_unit, row.len, row.q_begin, row.q_len, index);
}
