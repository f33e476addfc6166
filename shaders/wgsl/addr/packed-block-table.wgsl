// packed-block-table: indptr u32 [row + 1], indices u32 [entries], last_len u32 [row].
fn row_open(y: u32, lane: u32) -> RowRef {
    let q_begin = table_load_uniform(P.cu_q_at + y, lane);
    let q_end = table_load_uniform(P.cu_q_at + y + 1u, lane);
    let first = table_load_uniform(P.indptr_at + y, lane);
    let end = table_load_uniform(P.indptr_at + y + 1u, lane);
    var len = 0u;
    if (end > first) {
        len = (end - first - 1u) * P.block_size + table_load_uniform(P.rows_at + y, lane);
    }
    var row = row_of(len, q_begin, q_end - q_begin);
    row.entries = P.entries_at + first;
    return row;
}
