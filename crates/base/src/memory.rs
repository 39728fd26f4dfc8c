//! Memory that the system can refuse.
//!
//! An allocation that fails ends a Rust process, unless it is made with `try_reserve`. Work that allocates in many places requests
//! what it will need in one piece before it starts, and is rejected if that is refused.

/// Checks whether the system grants so much memory now. Nothing is written to it, so it costs no page; it is no promise for later.
pub fn is_available(octets: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(octets).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_no_system_has_is_not_available() {
        assert!(is_available(1 << 20));
        assert!(!is_available(isize::MAX as usize));
    }
}
