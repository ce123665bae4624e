//! The one integration binary; each module is a file of `all/`.

#[cfg(test)]
#[path = "all/judges.rs"]
mod judges;
#[cfg(test)]
#[path = "all/scripted.rs"]
mod scripted;
