// Logical block -> physical block through a list of entries. One lane loads the entry of each block a tile touches.
var<workgroup> block_of: array<u32, 64>;

fn blocks_open(entries: u32, t: u32, count: u32, lane: u32) -> Tile {
    let key = t + lane;
    if (lane < count && (lane == 0u || key % P.block_size == 0u)) {
        block_of[lane] = table_load(entries + key / P.block_size);
    }
    workgroupBarrier();
    return Tile(t, count, 0u, entries);
}

fn blocks_slot(t: u32, lane: u32) -> u32 {
    let offset = (t + lane) % P.block_size;
    return block_of[lane - min(lane, offset)] * P.block_size + offset;
}
