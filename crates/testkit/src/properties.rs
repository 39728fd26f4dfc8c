//! The number of random cases in a property test.

use proptest::test_runner::Config;

/// The default number of cases in proptest.
const USUAL_CASES: u32 = 256;

/// Returns the configuration of a property test with this many cases. `PROPTEST_CASES` scales it like a test with the
/// default number: `scripts/properties` runs many more than the suite has time for.
pub fn property_cases(cases: u32) -> Config {
    let usual = Config::default();
    let cases = u64::from(cases) * u64::from(usual.cases) / u64::from(USUAL_CASES);
    Config {
        cases: u32::try_from(cases.max(1)).unwrap_or(u32::MAX),
        // A failing case is worth the time it takes to shrink it.
        max_shrink_iters: 4096,
        ..usual
    }
}
