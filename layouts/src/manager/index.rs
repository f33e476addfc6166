//! The prefix index: a trie of block contents. A node is one block's tokens after one parent chain under one salt;
//! it lists the blocks that hold this content. Lookup goes through a hash and then compares parent, tokens and salt,
//! so a collision costs time only.

use std::collections::{BTreeMap, BTreeSet};

use crate::fault::Flaw;

/// Hash of one block's key: (hash of the parent chain, the block's tokens, salt).
pub type ChainHash = fn(parent: u64, tokens: &[u64], salt: u64) -> u64;

/// The default [`ChainHash`]: the `SplitMix64` finaliser (Steele, Lea, Flood 2014) absorbed word by word.
pub fn chain_hash(parent: u64, tokens: &[u64], salt: u64) -> u64 {
    let mix = |state: u64, word: u64| {
        let mut z = (state ^ word).wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    tokens.iter().fold(mix(mix(0, parent), salt), |state, &token| mix(state, token))
}

/// A faulty [`ChainHash`]: a polynomial of base 31, in which neighbouring tokens can make up for each other.
pub(super) fn polynomial_hash(parent: u64, tokens: &[u64], salt: u64) -> u64 {
    let start = parent.wrapping_mul(31).wrapping_add(salt);
    tokens.iter().fold(start, |state, &token| state.wrapping_mul(31).wrapping_add(token))
}

/// A faulty [`ChainHash`]: the low byte of the right one.
pub(super) fn low_byte_hash(parent: u64, tokens: &[u64], salt: u64) -> u64 {
    chain_hash(parent, tokens, salt) & 0xFF
}

/// Name of a chain: equal ids mean equal salt and equal tokens from position 0 to the end of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeId(u64);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    parent: Option<NodeId>,
    tokens: Box<[u64]>,
    salt: u64,
    hash: u64,
    /// Blocks with this content: live ones in the order they became full, or one cached (free) block.
    blocks: Vec<u32>,
    /// Rows that end here, child nodes, and 1 while `blocks` is not empty.
    users: u32,
}

/// The trie and its hash table.
#[derive(Clone, Debug)]
pub(super) struct Index {
    hash: ChainHash,
    nodes: BTreeMap<NodeId, Node>,
    by_hash: BTreeMap<u64, Vec<NodeId>>,
    children: BTreeMap<(Option<NodeId>, u64), BTreeSet<NodeId>>,
    next: u64,
    flaw: Option<Flaw>,
}

impl Index {
    pub(super) fn new(hash: ChainHash, flaw: Option<Flaw>) -> Self {
        let (by_hash, children) = (BTreeMap::new(), BTreeMap::new());
        Self { hash, nodes: BTreeMap::new(), by_hash, children, next: 0, flaw }
    }

    fn hash_of(&self, parent: Option<NodeId>, tokens: &[u64], salt: u64) -> u64 {
        let above = parent.and_then(|p| self.nodes.get(&p)).map_or(0, |p| p.hash);
        match self.flaw {
            Some(Flaw::NoParent) => (self.hash)(0, tokens, salt),
            Some(Flaw::NoSalt) => (self.hash)(above, tokens, 0),
            _ => (self.hash)(above, tokens, salt),
        }
    }

    /// Whether the node has that key.
    fn is_key(&self, node: &Node, parent: Option<NodeId>, tokens: &[u64], salt: u64) -> bool {
        let trusted = matches!(self.flaw, Some(Flaw::PolynomialTrusted | Flaw::LowByteTrusted));
        let same_parent = node.parent == parent || self.flaw == Some(Flaw::NoParent);
        let same_salt = node.salt == salt || self.flaw == Some(Flaw::NoSalt);
        trusted || (same_parent && same_salt && *node.tokens == *tokens)
    }

    /// The node of that key, if some block or row still needs it.
    pub(super) fn find(&self, parent: Option<NodeId>, tokens: &[u64], salt: u64) -> Option<NodeId> {
        let candidates = self.by_hash.get(&self.hash_of(parent, tokens, salt))?;
        candidates
            .iter()
            .copied()
            .find(|id| self.nodes.get(id).is_some_and(|node| self.is_key(node, parent, tokens, salt)))
    }

    /// The node of that key, made if it is new. A new node lives only while something uses it: join a block or
    /// retain it before the next release.
    pub(super) fn intern(&mut self, parent: Option<NodeId>, tokens: &[u64], salt: u64) -> NodeId {
        if let Some(found) = self.find(parent, tokens, salt) {
            return found;
        }
        let id = NodeId(self.next);
        self.next += 1;
        let hash = self.hash_of(parent, tokens, salt);
        self.by_hash.entry(hash).or_default().push(id);
        self.children.entry((parent, salt)).or_default().insert(id);
        if let Some(above) = parent {
            self.retain(above);
        }
        self.nodes
            .insert(id, Node { parent, tokens: tokens.into(), salt, hash, blocks: Vec::new(), users: 0 });
        id
    }

    /// One more row ends at the node.
    pub(super) fn retain(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.users += 1;
        }
    }

    /// One user less; nodes that nothing needs are removed, up the chain.
    pub(super) fn release(&mut self, id: NodeId) {
        let mut next = Some(id);
        while let Some(id) = next.take() {
            let Some(node) = self.nodes.get_mut(&id) else { return };
            node.users -= 1;
            if node.users > 0 {
                return;
            }
            next = self.remove(id);
        }
    }

    /// Unlinks a node; its parent, which has one user less now, is returned.
    fn remove(&mut self, id: NodeId) -> Option<NodeId> {
        let node = self.nodes.remove(&id)?;
        if let Some(bucket) = self.by_hash.get_mut(&node.hash) {
            bucket.retain(|&other| other != id);
            if bucket.is_empty() {
                self.by_hash.remove(&node.hash);
            }
        }
        let family = (node.parent, node.salt);
        if let Some(siblings) = self.children.get_mut(&family) {
            siblings.remove(&id);
            if siblings.is_empty() {
                self.children.remove(&family);
            }
        }
        node.parent
    }

    /// Blocks with the node's content; a hit takes the first.
    pub(super) fn blocks(&self, id: NodeId) -> &[u32] {
        self.nodes.get(&id).map_or(&[], |n| &n.blocks)
    }

    /// Tokens of the node's block.
    pub(super) fn tokens(&self, id: NodeId) -> &[u64] {
        self.nodes.get(&id).map_or(&[], |n| &n.tokens)
    }

    /// The chain one block shorter.
    pub(super) fn parent(&self, id: NodeId) -> Option<NodeId> {
        self.nodes.get(&id).and_then(|n| n.parent)
    }

    /// Salt of the chain.
    pub(super) fn salt(&self, id: NodeId) -> Option<u64> {
        self.nodes.get(&id).map(|n| n.salt)
    }

    /// Nodes one block longer than `parent`, oldest first.
    pub(super) fn children(&self, parent: Option<NodeId>, salt: u64) -> impl Iterator<Item = NodeId> {
        self.children.get(&(parent, salt)).into_iter().flatten().copied()
    }

    /// All (node, block) entries.
    pub(super) fn entries(&self) -> impl Iterator<Item = (NodeId, u32)> {
        self.nodes.iter().flat_map(|(&id, node)| node.blocks.iter().map(move |&block| (id, block)))
    }

    /// The block now holds the node's content.
    pub(super) fn join(&mut self, id: NodeId, block: u32) {
        if let Some(node) = self.nodes.get_mut(&id) {
            if node.blocks.is_empty() {
                node.users += 1;
            }
            node.blocks.push(block);
        }
    }

    /// The block no longer holds the node's content.
    pub(super) fn leave(&mut self, id: NodeId, block: u32) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let before = node.blocks.len();
        let all = self.flaw == Some(Flaw::OneBlockPerKey);
        node.blocks.retain(|&other| other != block && !all);
        if before > 0 && node.blocks.is_empty() {
            self.release(id);
        }
    }
}

/// Two indexes are equal if they hold the same nodes; the hash function itself is not compared.
impl PartialEq for Index {
    fn eq(&self, other: &Self) -> bool {
        self.next == other.next
            && self.nodes == other.nodes
            && self.by_hash == other.by_hash
            && self.children == other.children
    }
}
