//! The prefix tree: which blocks of the cache hold which tokens, who uses them, and which may go.
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
//! Adapters change keys and values, and a prompt that is computed up to a layer leaves none of later layers. So blocks are
//! found only by sequences of the same [`Variant`]: the root's children are kept apart by it.

use std::collections::BTreeSet;

use crate::model::BLOCK;

/// A node of the tree; the root is not a node.
pub type NodeId = u32;

/// What keys and values depend on besides the tokens: sequences share blocks of the cache only where it is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variant {
    /// The model's adapter that all tokens take.
    pub adapter: Option<u32>,
    /// How many of the model's layers are computed; `None` for all of them. Blocks hold no keys and values of later layers.
    pub n_layers: Option<u32>,
}

/// What a new node stands on.
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
    /// The node whose block holds the next tokens, and how many of them.
    pub tail: Option<(NodeId, usize)>,
}

impl Match {
    /// Tokens matched.
    #[must_use]
    pub fn n_tokens(&self) -> usize {
        self.path.len() * BLOCK + self.tail.map_or(0, |tail| tail.1)
    }
}

/// The tree and the free blocks.
#[derive(Debug)]
pub struct Radix {
    nodes: Vec<Node>,
    /// Slots of `nodes` that hold nothing.
    vacant: Vec<NodeId>,
    free: Vec<u32>,
    n_blocks: usize,
    /// Leaves that nobody uses, least recently used first; those that waiting work wants come last.
    idle: BTreeSet<(bool, u64, NodeId)>,
    /// Nodes, and how many of them somebody uses.
    n_nodes: usize,
    n_held: usize,
    clock: u64,
}

/// What a node is found by among its siblings: its variant, and its tokens.
type Key = (Variant, Vec<u32>);

#[derive(Debug, Default)]
struct Node {
    parent: NodeId,
    block: u32,
    tokens: Vec<u32>,
    /// That of its keys and values, and of all nodes that stand on it.
    variant: Variant,
    /// In the order of their tokens, so that those that begin alike are neighbours.
    children: BTreeSet<(Key, NodeId)>,
    /// Tokens of the block whose keys and values are there.
    n_ready: usize,
    users: u32,
    wanted: u32,
    last_use: u64,
    live: bool,
}

impl Radix {
    /// An empty tree over `n_blocks` free blocks.
    #[must_use]
    pub fn new(n_blocks: usize) -> Self {
        let root = Node { live: true, ..Node::default() };
        let free = (0..n_blocks as u32).rev().collect();
        let idle = BTreeSet::new();
        Self { nodes: vec![root], vacant: Vec::new(), free, n_blocks, idle, n_nodes: 0, n_held: 0, clock: 0 }
    }

    /// The longest known start of `tokens` in a variant, at most `limit` tokens of it.
    #[must_use]
    pub fn find(&self, variant: Variant, tokens: &[u32], limit: usize) -> Match {
        let tokens = &tokens[..tokens.len().min(limit)];
        let mut found = Match::default();
        let mut at = ROOT;
        loop {
            let rest = &tokens[found.path.len() * BLOCK..];
            let best = self.best_child(at, variant, rest);
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

    /// The child that shares most tokens with `rest`, the one of the least number of equals. It costs what looking one
    /// up among its siblings does, however many they are.
    fn best_child(&self, parent: NodeId, variant: Variant, rest: &[u32]) -> Option<(NodeId, usize)> {
        let children = &self.nodes[parent as usize].children;
        let rest = &rest[..rest.len().min(BLOCK)];
        let shared = |((own, tokens), _): &(Key, NodeId)| {
            let tokens = tokens.iter().filter(|_| *own == variant);
            tokens.zip(rest).take_while(|(a, b)| a == b).count()
        };
        let place = |tokens: &[u32]| ((variant, tokens.to_vec()), NodeId::MIN);
        // What begins most alike stands next to where the tokens would stand.
        let neighbours = [children.range(..place(rest)).next_back(), children.range(place(rest)..).next()];
        let n = neighbours.into_iter().flatten().map(shared).max().filter(|&n| n > 0)?;
        let alike = children.range(place(&rest[..n])..).take_while(|child| shared(child) == n);
        alike.map(|(_, id)| (*id, n)).min()
    }

    fn key(&self, id: NodeId) -> (Key, NodeId) {
        let node = &self.nodes[id as usize];
        ((node.variant, node.tokens.clone()), id)
    }

    /// Keeps nodes from being evicted.
    pub fn lock(&mut self, nodes: &[NodeId]) {
        for &id in nodes {
            self.rest(id, |node| node.users += 1);
        }
    }

    /// Undoes [`Radix::lock`]; the nodes become the most recently used.
    ///
    /// # Panics
    /// When a node is unlocked more often than it was locked.
    pub fn unlock(&mut self, nodes: &[NodeId]) {
        self.clock += 1;
        let now = self.clock;
        // The deepest goes first, so that it is evicted before what it stands on.
        for (i, &id) in nodes.iter().rev().enumerate() {
            self.rest(id, |node| {
                node.users = node.users.checked_sub(1).expect("unlocked as often as locked");
                node.last_use = now + i as u64;
            });
        }
        self.clock += nodes.len() as u64;
    }

    /// Says that waiting work will use these nodes: they are evicted last.
    pub fn want(&mut self, nodes: &[NodeId]) {
        for &id in nodes {
            self.rest(id, |node| node.wanted += 1);
        }
    }

    /// Undoes [`Radix::want`] for those nodes that are still the same.
    pub fn unwant(&mut self, nodes: &[NodeId]) {
        for &id in nodes {
            self.rest(id, |node| node.wanted = node.wanted.saturating_sub(1));
        }
    }

    /// Changes a node and puts it in or out of the idle list as its state says.
    fn rest(&mut self, id: NodeId, change: impl FnOnce(&mut Node)) {
        let node = &mut self.nodes[id as usize];
        self.idle.remove(&(node.wanted > 0, node.last_use, id));
        let was_held = node.users > 0;
        change(node);
        // Users lock whole paths, so a node is held when it or anything below it is used.
        self.n_held = self.n_held + usize::from(node.users > 0) - usize::from(was_held);
        if id != ROOT && node.live && node.users == 0 && node.children.is_empty() {
            self.idle.insert((node.wanted > 0, node.last_use, id));
        }
    }

    /// Free blocks, and those that eviction could free.
    #[must_use]
    pub fn n_available(&self) -> usize {
        self.free.len() + self.n_nodes - self.n_held
    }

    /// Takes `n` blocks, evicting the least recently used leaves where too few are free; `None`, and nothing
    /// changed, when that many cannot be had.
    pub fn allocate(&mut self, n: usize) -> Option<Vec<u32>> {
        if self.n_available() < n {
            return None;
        }
        while self.free.len() < n {
            let &(_, _, id) = self.idle.first()?;
            self.evict(id);
        }
        let rest = self.free.len() - n;
        Some(self.free.split_off(rest))
    }

    /// Takes a node out of the tree that only the caller uses and on which nothing stands: what it was to hold is not
    /// going to be computed. Its block is free afterwards.
    ///
    /// # Panics
    /// When somebody else uses the node.
    pub fn remove(&mut self, id: NodeId) {
        assert!(
            self.is_own(id) && self.nodes[id as usize].children.is_empty(),
            "a leaf that only the caller uses"
        );
        self.unlock(&[id]);
        self.evict(id);
    }

    /// Whether a node that the caller has locked is used by nobody else.
    #[must_use]
    pub fn is_own(&self, id: NodeId) -> bool {
        self.nodes[id as usize].users == 1
    }

    /// Whether all tokens of a node have their keys and values in the block.
    #[must_use]
    pub fn is_ready(&self, id: NodeId) -> bool {
        let node = &self.nodes[id as usize];
        node.n_ready == node.tokens.len()
    }

    fn evict(&mut self, id: NodeId) {
        let node = &self.nodes[id as usize];
        self.idle.remove(&(node.wanted > 0, node.last_use, id));
        let key = self.key(id);
        let node = std::mem::take(&mut self.nodes[id as usize]);
        self.free.push(node.block);
        self.vacant.push(id);
        self.n_nodes -= 1;
        self.rest(node.parent, |parent| {
            parent.children.remove(&key);
        });
    }

    /// Gives back blocks that are in no node.
    pub fn release(&mut self, blocks: &[u32]) {
        self.free.extend_from_slice(blocks);
    }

    /// Adds a block under `parent`, locked by the caller and not ready. A parent node is locked too.
    pub fn insert(&mut self, parent: Parent, tokens: &[u32], block: u32) -> NodeId {
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
            Node { parent, block, tokens, variant, users: 1, live: true, ..Node::default() };
        (self.n_nodes, self.n_held) = (self.n_nodes + 1, self.n_held + 1);
        let key = self.key(id);
        self.rest(parent, |node| {
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

    /// Says how many of a node's tokens have their keys and values in the block.
    pub fn set_ready(&mut self, id: NodeId, n_tokens: usize) {
        let node = &mut self.nodes[id as usize];
        node.n_ready = node.n_ready.max(n_tokens.min(node.tokens.len()));
    }

    #[must_use]
    pub fn n_ready(&self, id: NodeId) -> usize {
        self.nodes[id as usize].n_ready
    }

    /// Tokens of a node.
    #[must_use]
    pub fn n_tokens(&self, id: NodeId) -> usize {
        self.nodes[id as usize].tokens.len()
    }

    #[must_use]
    pub fn block(&self, id: NodeId) -> u32 {
        self.nodes[id as usize].block
    }

    /// Blocks that hold nothing.
    #[must_use]
    pub fn n_free(&self) -> usize {
        self.free.len()
    }

    /// Checks that every block is in exactly one place and every count is what it counts. `private` are the
    /// blocks that callers allocated and did not insert.
    ///
    /// # Errors
    /// The first thing that does not add up.
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
        let held = live().filter(|(_, node)| node.users > 0).count();
        if (live().count(), held) != (self.n_nodes, self.n_held) {
            return Err("nodes in use are miscounted".into());
        }
        let listed: usize = self.nodes.iter().map(|node| node.children.len()).sum();
        if listed != self.n_nodes {
            return Err("a node lists a child that is not there".into());
        }
        Ok(())
    }

    fn check_node(&self, id: NodeId, node: &Node) -> Result<(), String> {
        let fail = |what: &str| Err(format!("node {id} {what}"));
        let parent = &self.nodes[node.parent as usize];
        if node.tokens.is_empty() || node.tokens.len() > BLOCK || node.n_ready > node.tokens.len() {
            return fail("holds an impossible number of tokens");
        }
        if !parent.live || !parent.children.contains(&self.key(id)) {
            return fail("is not listed with its parent");
        }
        if node.parent != ROOT && (parent.tokens.len() != BLOCK || parent.users < node.users) {
            return fail("stands on a parent that is not whole, or less used than itself");
        }
        if node.parent != ROOT && parent.variant != node.variant {
            return fail("stands on a block of another variant");
        }
        let idle = node.users == 0 && node.children.is_empty();
        if idle != self.idle.contains(&(node.wanted > 0, node.last_use, id)) {
            return fail("is in the idle list when it should not, or the other way round");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
