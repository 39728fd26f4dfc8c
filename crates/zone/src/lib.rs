//! Immutable zone contents, the zone table, lookup and the difference of two versions.
