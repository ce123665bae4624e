//! Pairwise questions in both orders: models prefer a place, so each pair is asked twice with its texts
//! swapped. Wang et al. 2024, "Large Language Models are not Fair Evaluators". Answers are read by the
//! caller.

use std::panic::resume_unwind;

use super::Result;

/// Order of two texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    AsGiven,
    Swapped,
}

impl Order {
    /// The two texts in this order.
    pub fn put<'t>(self, first: &'t str, second: &'t str) -> (&'t str, &'t str) {
        match self {
            Self::AsGiven => (first, second),
            Self::Swapped => (second, first),
        }
    }
}

/// Asks in both orders side by side: the answers to the given and to the swapped order.
///
/// # Errors
/// The first error that `ask` returns.
pub fn both_orders<T: Send>(ask: impl Fn(Order) -> Result<T> + Sync) -> Result<[T; 2]> {
    std::thread::scope(|scope| {
        let swapped = scope.spawn(|| ask(Order::Swapped));
        let as_given = ask(Order::AsGiven);
        let swapped = swapped.join().unwrap_or_else(|panic| resume_unwind(panic));
        Ok([as_given?, swapped?])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_are_asked() {
        let shown = both_orders(|order| Ok(order.put("a", "b"))).unwrap();
        assert_eq!(shown, [("a", "b"), ("b", "a")]);
        let failing = |order| if order == Order::Swapped { Err(crate::Error::Truncated(1)) } else { Ok(()) };
        assert!(matches!(both_orders(failing), Err(crate::Error::Truncated(1))));
    }
}
