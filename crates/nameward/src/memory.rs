//! The allocator, where huge pages are used, and the call that returns unused memory to the system.

#![allow(unsafe_code)]

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

unsafe extern "C" {
    /// From mimalloc, which is linked in as the allocator.
    fn mi_collect(force: bool);
}

/// Returns memory to the system that a load needed only while it ran. The allocator does so by
/// itself on allocation, but a server that answers from memory never allocates.
pub fn give_back() {
    // SAFETY: it takes no pointers and may be called from any thread at any time.
    unsafe { mi_collect(true) }
}

/// The allocator's variable: with 0 it turns huge pages off for the process, with 1 the policy of the system applies.
const ALLOW_HUGE_PAGES: &str = "MIMALLOC_ALLOW_THP";

/// Keeps the kernel from giving huge pages to memory that has not requested them, as it does where its policy is `always`:
/// small zones then take a third more memory, and 2,000 of them under load four times as much. The contents of large zones request
/// them (`zone`). Must be called before there are threads.
///
/// Before Linux 6.18 a process can only renounce them altogether.
pub fn restrict_huge_pages() {
    if std::env::var_os(ALLOW_HUGE_PAGES).is_some() || !policy_is_always() {
        return;
    }
    #[cfg(target_os = "linux")]
    {
        /// Linux 6.18.
        const PR_THP_DISABLE_EXCEPT_ADVISED: libc::c_ulong = 1 << 1;
        let disable = |flags: libc::c_ulong| {
            let (on, unused): (libc::c_ulong, libc::c_ulong) = (1, 0);
            // SAFETY: the call takes numbers only and affects future page faults of this process.
            unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, on, flags, unused, unused) == 0 }
        };
        // A kernel without the facility gives no huge pages.
        let _ = disable(PR_THP_DISABLE_EXCEPT_ADVISED) || disable(0);
    }
}

/// Checks whether the kernel gives huge pages to any memory. The policy in force is in brackets.
fn policy_is_always() -> bool {
    let policy = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    policy.is_ok_and(|policy| policy.contains("[always]"))
}
