//! Tests on a disk that is soon full: a tmpfs of some kilobytes in its own namespace.

use std::process::Command;

/// Runs an ignored test of the calling test binary in a namespace in which the directory `$DISK` is a tmpfs of some
/// kilobytes. Panics with all output unless that test passes.
pub fn run_on_small_disk(test: &str, kilobytes: u32) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let script = format!(
        "mount -t tmpfs -o size={kilobytes}k none \"$DISK\" && exec \"$TEST\" {test} --exact --ignored --nocapture"
    );
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", &script])
        .env("DISK", directory.path())
        .env("TEST", std::env::current_exe().expect("a path"))
        .output()
        .expect("unshare of util-linux is installed");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let is_good = output.status.success() && text.contains("1 passed");
    assert!(is_good, "{text}");
}
