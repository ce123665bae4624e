//! The prefix tree (radix cache): the tokens of each cache block, the locked blocks and the evictable ones.
//! Integers only; it moves no tensor.
//!
//! ```text
//! root ── [t0..t15] ── [t16..t31] ── [t32..t40]      a node is one block: 16 tokens, or fewer at a leaf
//!                   └─ [t16..t20 u21..u31] ── ...    siblings differ somewhere inside their block
//! ```
//!
//! Blocks stay aligned to absolute positions. A prompt that diverges from another inside a block shares the
//! whole blocks before it, and has the tokens up to that point copied into a block of its own: nothing is
//! computed twice, and no two writers ever share a block.
//!
//! Adapters change keys and values, and a prompt that is computed up to a layer leaves none of later layers.
//! So blocks are found only by sequences of the same [`Variant`]: the root's children are kept apart by it.

use std::collections::BTreeSet;

use crate::model::BLOCK;

/// A node of the tree; the root is not a node.
pub type NodeId = u32;

/// Everything that keys and values depend on besides the tokens: only sequences of equal variants share
/// blocks of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variant {
    /// The model's adapter that is applied to all tokens.
    pub adapter: Option<u32>,
    /// Number of the model's layers that are computed; `None` for all of them. Blocks hold no keys and values
    /// of later layers.
    pub n_layers: Option<u32>,
}

/// Tokens of whole blocks that prompts begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    pub variant: Variant,
    pub tokens: Vec<u32>,
}

/// The parent of a new node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// The root, among blocks of this variant.
    Root(Variant),
    /// A node that holds a whole block.
    Node(NodeId),
}

const ROOT: NodeId = 0;

/// Tokens already in the tree for the start of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// Whole blocks, from the first on.
    pub path: Vec<NodeId>,
    /// The node whose block holds the next tokens, and their number.
    pub tail: Option<(NodeId, usize)>,
}

impl Match {
    /// Tokens matched.
    pub fn n_tokens(&self) -> usize {
        self.path.len() * BLOCK + self.tail.map_or(0, |tail| tail.1)
    }
}

/// The tree and the free blocks.
#[derive(Debug)]
pub struct Radix {
    nodes: Vec<Node>,
    /// Unused slots of `nodes`.
    vacant: Vec<NodeId>,
    free: Vec<u32>,
    n_blocks: usize,
    /// Unlocked leaves, least recently used first; hinted ones come last.
    evictable: BTreeSet<(bool, u64, NodeId)>,
    /// Number of nodes, and of locked ones among them.
    n_nodes: usize,
    n_locked: usize,
    clock: u64,
}

/// The key of a node among its siblings: its variant and its tokens.
type Key = (Variant, Vec<u32>);

#[derive(Debug, Default)]
struct Node {
    parent: NodeId,
    block: u32,
    tokens: Vec<u32>,
    /// The variant of its keys and values, and of all its descendants.
    variant: Variant,
    /// Children in the order of their tokens, so that those with a common start are neighbours.
    children: BTreeSet<(Key, NodeId)>,
    /// Tokens whose keys and values are in the block.
    n_ready: usize,
    n_locks: u32,
    n_hints: u32,
    last_use: u64,
    live: bool,
}

impl Radix {
    /// An empty tree over `n_blocks` free blocks.
    pub fn new(n_blocks: usize) -> Self {
        let root = Node { live: true, ..Node::default() };
        let free = (0..n_blocks as u32).rev().collect();
        let evictable = BTreeSet::new();
        Self {
            nodes: vec![root],
            vacant: Vec::new(),
            free,
            n_blocks,
            evictable,
            n_nodes: 0,
            n_locked: 0,
            clock: 0,
        }
    }

    /// The longest known start of `tokens` in a variant, at most `limit` tokens of it.
    pub fn match_prefix(&self, variant: Variant, tokens: &[u32], limit: usize) -> Match {
        let tokens = &tokens[..tokens.len().min(limit)];
        let mut found = Match::default();
        let mut at = ROOT;
        loop {
            let tail = &tokens[found.path.len() * BLOCK..];
            let best = self.longest_child(at, variant, tail);
            match best {
                Some((child, BLOCK)) => {
                    found.path.push(child);
                    at = child;
                }
                tail => {
                    found.tail = tail;
                    return found;
                }
            }
        }
    }

    /// The child that shares most tokens with `rest`, the one with the lowest id among equals, and the number
    /// of shared tokens. The cost is that of a lookup among its siblings, logarithmic in their number.
    fn longest_child(&self, parent: NodeId, variant: Variant, tail: &[u32]) -> Option<(NodeId, usize)> {
        let children = &self.nodes[parent as usize].children;
        let tail = &tail[..tail.len().min(BLOCK)];
        let shared = |((key, tokens), _): &(Key, NodeId)| {
            let tokens = tokens.iter().filter(|_| *key == variant);
            tokens.zip(tail).take_while(|(a, b)| a == b).count()
        };
        let place = |tokens: &[u32]| ((variant, tokens.to_vec()), NodeId::MIN);
        // The longest common prefix is that of a neighbour of the tokens' place in the order.
        let neighbours = [children.range(..place(tail)).next_back(), children.range(place(tail)..).next()];
        let n = neighbours.into_iter().flatten().map(shared).max().filter(|&n| n > 0)?;
        let alike = children.range(place(&tail[..n])..).take_while(|child| shared(child) == n);
        alike.map(|(_, id)| (*id, n)).min()
    }

    fn key(&self, id: NodeId) -> (Key, NodeId) {
        let node = &self.nodes[id as usize];
        ((node.variant, node.tokens.clone()), id)
    }

    /// Protects nodes from eviction.
    pub fn lock(&mut self, nodes: &[NodeId]) {
        for &id in nodes {
            self.update(id, |node| node.n_locks += 1);
        }
    }

    /// Undoes [`Radix::lock`]; the nodes become the most recently used.
    ///
    /// # Panics
    /// When a node is unlocked more often than it was locked.
    pub fn unlock(&mut self, nodes: &[NodeId]) {
        self.clock += 1;
        let now = self.clock;
        // The deepest comes first, so that it is evicted before its ancestors.
        for (i, &id) in nodes.iter().rev().enumerate() {
            self.update(id, |node| {
                node.n_locks = node.n_locks.checked_sub(1).expect("unlocked as often as locked");
                node.last_use = now + i as u64;
            });
        }
        self.clock += nodes.len() as u64;
    }

    /// Marks nodes that waiting sequences will use: they are evicted last.
    pub fn hint(&mut self, nodes: &[NodeId]) {
        for &id in nodes {
            self.update(id, |node| node.n_hints += 1);
        }
    }

    /// Undoes [`Radix::hint`]; nodes that were evicted in the meantime are not affected.
    pub fn unhint(&mut self, nodes: &[NodeId]) {
        for &id in nodes {
            self.update(id, |node| node.n_hints = node.n_hints.saturating_sub(1));
        }
    }

    /// Updates a node and its membership in the evictable list.
    fn update(&mut self, id: NodeId, change: impl FnOnce(&mut Node)) {
        let node = &mut self.nodes[id as usize];
        self.evictable.remove(&(node.n_hints > 0, node.last_use, id));
        let was_locked = node.n_locks > 0;
        change(node);
        // Whole paths are locked, so a node is locked if any node below it is.
        self.n_locked = self.n_locked + usize::from(node.n_locks > 0) - usize::from(was_locked);
        if id != ROOT && node.live && node.n_locks == 0 && node.children.is_empty() {
            self.evictable.insert((node.n_hints > 0, node.last_use, id));
        }
    }

    /// Number of free blocks and of those that eviction could free.
    pub fn n_available(&self) -> usize {
        self.free.len() + self.n_nodes - self.n_locked
    }

    /// Takes `n` blocks, evicting the least recently used leaves where too few are free; `None`, and nothing
    /// is changed, if there are fewer.
    pub fn allocate(&mut self, n: usize) -> Option<Vec<u32>> {
        if self.n_available() < n {
            return None;
        }
        while self.free.len() < n {
            let &(_, _, id) = self.evictable.first()?;
            self.evict(id);
        }
        let n_left = self.free.len() - n;
        Some(self.free.split_off(n_left))
    }

    /// Removes a leaf that only the caller has locked, because its tokens will not be computed. Frees its
    /// block.
    ///
    /// # Panics
    /// The node has other locks or children.
    pub fn remove(&mut self, id: NodeId) {
        assert!(
            self.is_own(id) && self.nodes[id as usize].children.is_empty(),
            "a leaf that only the caller has locked"
        );
        self.unlock(&[id]);
        self.evict(id);
    }

    /// Returns true if a node that the caller has locked has no other lock.
    pub fn is_own(&self, id: NodeId) -> bool {
        self.nodes[id as usize].n_locks == 1
    }

    /// Returns true if all tokens of a node have their keys and values in the block.
    pub fn is_ready(&self, id: NodeId) -> bool {
        let node = &self.nodes[id as usize];
        node.n_ready == node.tokens.len()
    }

    fn evict(&mut self, id: NodeId) {
        let node = &self.nodes[id as usize];
        self.evictable.remove(&(node.n_hints > 0, node.last_use, id));
        let key = self.key(id);
        let node = std::mem::take(&mut self.nodes[id as usize]);
        self.free.push(node.block);
        self.vacant.push(id);
        self.n_nodes -= 1;
        self.update(node.parent, |parent| {
            parent.children.remove(&key);
        });
    }

    /// Frees blocks that are in no node.
    pub fn release(&mut self, blocks: &[u32]) {
        self.free.extend_from_slice(blocks);
    }

    /// Adds a block under `parent`, locked by the caller and not ready. A parent node is locked too.
    pub fn insert_prefix(&mut self, parent: Parent, tokens: &[u32], block: u32) -> NodeId {
        let (parent, variant) = match parent {
            Parent::Root(variant) => (ROOT, variant),
            Parent::Node(id) => (id, self.nodes[id as usize].variant),
        };
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.nodes.push(Node::default());
            (self.nodes.len() - 1) as NodeId
        });
        let tokens = tokens.to_vec();
        self.nodes[id as usize] =
            Node { parent, block, tokens, variant, n_locks: 1, live: true, ..Node::default() };
        (self.n_nodes, self.n_locked) = (self.n_nodes + 1, self.n_locked + 1);
        let key = self.key(id);
        self.update(parent, |node| {
            node.children.insert(key);
        });
        id
    }

    /// Adds tokens to a leaf whose block has room for them.
    pub fn extend(&mut self, leaf: NodeId, tokens: &[u32]) {
        let before = self.key(leaf);
        self.nodes[leaf as usize].tokens.extend_from_slice(tokens);
        let (after, parent) = (self.key(leaf), self.nodes[leaf as usize].parent);
        let siblings = &mut self.nodes[parent as usize].children;
        siblings.remove(&before);
        siblings.insert(after);
    }

    /// Records the number of a node's tokens that have their keys and values in the block.
    pub fn set_ready(&mut self, id: NodeId, n_tokens: usize) {
        let node = &mut self.nodes[id as usize];
        node.n_ready = node.n_ready.max(n_tokens.min(node.tokens.len()));
    }

    pub fn n_ready(&self, id: NodeId) -> usize {
        self.nodes[id as usize].n_ready
    }

    /// Tokens of a node.
    pub fn n_tokens(&self, id: NodeId) -> usize {
        self.nodes[id as usize].tokens.len()
    }

    pub fn block(&self, id: NodeId) -> u32 {
        self.nodes[id as usize].block
    }

    /// Number of free blocks.
    pub fn n_free(&self) -> usize {
        self.free.len()
    }

    /// Checks that every block is in exactly one place and that all counts are right. `private` are the
    /// blocks that callers allocated and did not insert.
    ///
    /// # Errors
    /// The first inconsistency.
    pub fn check_integrity(&self, private: &[u32]) -> Result<(), String> {
        let mut places = vec![0_usize; self.n_blocks];
        let live = || self.nodes.iter().enumerate().skip(1).filter(|(_, node)| node.live);
        let blocks = self.free.iter().chain(private).copied().chain(live().map(|(_, node)| node.block));
        blocks.for_each(|block| places[block as usize] += 1);
        if let Some(block) = places.iter().position(|&n| n != 1) {
            return Err(format!("block {block} is in {} places", places[block]));
        }
        for (id, node) in live() {
            self.check_node(id as NodeId, node)?;
        }
        let locked = live().filter(|(_, node)| node.n_locks > 0).count();
        if (live().count(), locked) != (self.n_nodes, self.n_locked) {
            return Err("locked nodes are miscounted".into());
        }
        let listed: usize = self.nodes.iter().map(|node| node.children.len()).sum();
        if listed != self.n_nodes {
            return Err("a node lists a child that is not there".into());
        }
        Ok(())
    }

    fn check_node(&self, id: NodeId, node: &Node) -> Result<(), String> {
        let fail = |reason: &str| Err(format!("node {id} {reason}"));
        let parent = &self.nodes[node.parent as usize];
        if node.tokens.is_empty() || node.tokens.len() > BLOCK || node.n_ready > node.tokens.len() {
            return fail("holds an impossible number of tokens");
        }
        if !parent.live || !parent.children.contains(&self.key(id)) {
            return fail("is not listed with its parent");
        }
        if node.parent != ROOT && (parent.tokens.len() != BLOCK || parent.n_locks < node.n_locks) {
            return fail("has a parent that is not full, or has fewer locks than itself");
        }
        if node.parent != ROOT && parent.variant != node.variant {
            return fail("has a parent of another variant");
        }
        let is_evictable = node.n_locks == 0 && node.children.is_empty();
        if is_evictable != self.evictable.contains(&(node.n_hints > 0, node.last_use, id)) {
            return fail("is wrongly in the evictable list, or wrongly missing from it");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
