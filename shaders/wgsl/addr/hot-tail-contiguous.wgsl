// hot-tail-contiguous: packed entries for the cold blocks, and tail u32 [row][4] = {slot, start, len, flags}: the keys
// from `start` on lie in consecutive slots.
fn row_open(y: u32, lane: u32) -> RowRef {
    let q_begin = table_load_uniform(P.cu_q_at + y, lane);
    let q_end = table_load_uniform(P.cu_q_at + y + 1u, lane);
    let hot_start = table_load_uniform(P.rows_at + y * 4u + 1u, lane);
    let len = hot_start + table_load_uniform(P.rows_at + y * 4u + 2u, lane);
    var row = row_of(len, q_begin, q_end - q_begin);
    row.hot_start = hot_start;
    return row;
}

fn row_range(row: RowRef, y: u32, keys: vec2<u32>, lane: u32) -> RowRef {
    var found = row;
    if (keys.x < row.hot_start) {
        found.entries = P.entries_at + table_load_uniform(P.indptr_at + y, lane);
    }
    if (keys.y > row.hot_start) {
        found.hot_slot = table_load_uniform(P.rows_at + y * 4u, lane);
    }
    return found;
}

// `place` is 1 in the tail.
fn tile_open(row: RowRef, cursor: u32, t: u32, end: u32, lane: u32) -> Tile {
    if (t < row.hot_start) {
        return blocks_open(cursor, t, min(TILE, min(end, row.hot_start) - t), lane);
    }
    return Tile(t, min(TILE, end - t), 1u, cursor);
}

fn tile_slot(row: RowRef, tile: Tile, lane: u32) -> u32 {
    if (tile.place == 1u) {
        return row.hot_slot + (tile.start - row.hot_start) + lane;
    }
    return blocks_slot(tile.start, lane);
}
