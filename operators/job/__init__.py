"""The job level: named inputs and outputs, and no driving loop."""
