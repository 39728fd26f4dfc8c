//! Counters, rings and rates.
