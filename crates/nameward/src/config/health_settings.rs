//! The `[health]` table: checks of targets.

use super::read::Count;
use super::setting::section;

section! {
    /// Checks of the targets that LUA records name ([lua.md](lua.md#health-checks)). Changes take effect on reload.
    HealthTable = "health" {
        /// Seconds between two checks of a target, unless its script says otherwise.
        interval: Count<1, 86_400> = "5";
    }
}
