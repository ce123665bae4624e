//! Comparisons as text and as tables: of systems by one judge, and of judges on the same translations.

pub mod judges;
pub mod systems;
