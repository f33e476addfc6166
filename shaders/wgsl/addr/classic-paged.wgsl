// classic-paged: block_table i32 [row][max blocks], seq_lens u32 [row].
fn row_open(y: u32, lane: u32) -> RowRef {
    let q_begin = table_load_uniform(P.cu_q_at + y, lane);
    let q_end = table_load_uniform(P.cu_q_at + y + 1u, lane);
    let len = table_load_uniform(P.rows_at + y, lane);
    var row = row_of(len, q_begin, q_end - q_begin);
    row.entries = P.entries_at + y * P.entries_stride;
    return row;
}
