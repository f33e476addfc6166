// Tiles of a row whose keys all go through block entries.
fn tile_open(row: RowRef, cursor: u32, t: u32, end: u32, lane: u32) -> Tile {
    return blocks_open(cursor, t, min(TILE, end - t), lane);
}

fn tile_slot(row: RowRef, tile: Tile, lane: u32) -> u32 {
    return blocks_slot(tile.start, lane);
}
