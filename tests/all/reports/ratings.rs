//! Ratings of people, and forms that annotation tools write.
