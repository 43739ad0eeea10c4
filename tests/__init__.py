"""The tests of Hailer. A package, so that benches and test kits can be imported by name."""
