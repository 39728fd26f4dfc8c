//! How many random cases a property test looks at.

use proptest::test_runner::Config;

/// The number of cases that proptest takes where nothing else is said.
const USUAL_CASES: u32 = 256;

/// The configuration of a property test with so many cases. `PROPTEST_CASES` multiplies them as it does for a test that
/// has the usual number: `scripts/properties` looks at many more than the suite has the time for.
pub fn property_cases(cases: u32) -> Config {
    let usual = Config::default();
    let cases = u64::from(cases) * u64::from(usual.cases) / u64::from(USUAL_CASES);
    Config {
        cases: u32::try_from(cases.max(1)).unwrap_or(u32::MAX),
        // A case that fails is worth the time that it takes to make it small.
        max_shrink_iters: 4096,
        ..usual
    }
}
