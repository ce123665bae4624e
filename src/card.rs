//! The card room.
