//! The one integration binary; each module is a file of `all/`.

#[path = "all/architecture.rs"]
mod architecture;
