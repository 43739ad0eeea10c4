"""Programs that benches run in processes of their own."""

from tests.bench.programs.run import run_program

__all__ = ["run_program"]
