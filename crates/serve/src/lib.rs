//! Listeners, the pipeline from packet to packet, limits.
